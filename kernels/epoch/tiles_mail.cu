/* Variants of the kernel by tiles: the head by mail. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_mail[3] = {variant<32, false, true>(), variant<64, false, true>(),
                                         variant<64, true, true>()};

} // namespace tiles
