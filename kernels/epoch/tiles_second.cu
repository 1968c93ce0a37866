/* Variants of the kernel by tiles: the head by clusters, second moments. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_second[3] = {variant<32, true, false>(), variant<64, true, false>(),
                                           variant<128, true, false>()};

} // namespace tiles
