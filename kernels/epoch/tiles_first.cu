/* Variants of level `epoch`'s kernel that use clusters and keep no second moments. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_first[VARIANTS] = {variant<32, false, BY_CLUSTERS>(),
                                                 variant<64, false, BY_CLUSTERS>(),
                                                 variant<128, false, BY_CLUSTERS>()};

} // namespace tiles
