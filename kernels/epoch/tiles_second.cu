/* The variants of the kernel of level `epoch` with clusters and second moments. */
#include "epoch/tiles_kernel.cuh"

namespace tiles {

extern const Variant variants_second[VARIANTS] = {variant<32, true, BY_CLUSTERS>(),
                                                  variant<64, true, BY_CLUSTERS>(),
                                                  variant<128, true, BY_CLUSTERS>()};

} // namespace tiles
