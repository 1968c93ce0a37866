/* Variants of level `epoch`'s kernel that use mail, for compute capability 9.0. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_mail[VARIANTS] = {
    variant<32, false, BY_MAIL>(), variant<64, false, BY_MAIL>(), variant<64, true, BY_MAIL>(),
    variant<128, false, BY_MAIL>()};

} // namespace tiles
