/* Variants of level `epoch`'s kernel that use mail, for GPUs from compute capability 8.0 on that
   cannot run clusters of 16 blocks. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_80[VARIANTS] = {
    variant<32, false, BY_MAIL_FROM_80>(), variant<64, false, BY_MAIL_FROM_80>(),
    variant<32, true, BY_MAIL_FROM_80>(), variant<64, true, BY_MAIL_FROM_80>()};

} // namespace tiles
