/* The epoch kernel once more, with the stamps of epoch/stamps.h. Its namespace has another name:
   the host's stubs of both lie in one program. */
#define EPOCH_STAMPED
#define epoch epoch_stamped
#include "epoch/epoch.cu"
