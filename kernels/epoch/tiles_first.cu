/* Variants of the kernel by tiles: the head by clusters, no second moments. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_first[3] = {variant<32, false, false>(), variant<64, false, false>(),
                                          variant<128, false, false>()};

} // namespace tiles
