/* Variants of level `epoch`'s kernel that use clusters and keep second moments. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_second[VARIANTS] = {variant<32, true, BY_CLUSTERS>(),
                                                  variant<64, true, BY_CLUSTERS>(),
                                                  variant<128, true, BY_CLUSTERS>()};

} // namespace tiles
