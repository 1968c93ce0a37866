/* The variants of the kernel of level `epoch` for GPUs without clusters of 16 blocks, from compute
   capability 8.0 on. The head uses mail. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_80[VARIANTS] = {
    variant<32, false, BY_MAIL_FROM_80>(), variant<64, false, BY_MAIL_FROM_80>(),
    variant<32, true, BY_MAIL_FROM_80>(), variant<64, true, BY_MAIL_FROM_80>()};

} // namespace tiles
