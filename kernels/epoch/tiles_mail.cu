/* Variants of the kernel by tiles: the head by mail. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_mail[3] = {
    variant<32, false, BY_MAIL>(), variant<64, false, BY_MAIL>(), variant<64, true, BY_MAIL>()};

} // namespace tiles
