/* Variants of level `epoch`'s kernel for networks without hidden layers. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_classes[VARIANTS] = {
    variant<32, false, WITHOUT_HIDDEN>(), variant<64, false, WITHOUT_HIDDEN>(),
    variant<128, false, WITHOUT_HIDDEN>(), variant<128, true, WITHOUT_HIDDEN>()};

} // namespace tiles
