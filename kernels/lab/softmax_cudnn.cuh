/* cuDNN's softmax, with which the ladder of softmax.cu is compared. The library is looked for when
   the program runs, so that building does not need it. */
#pragma once

#include "lab/lab.cuh"

#include <dlfcn.h>
#include <type_traits>

namespace {

/* Prototypes as in cudnn.h, version 9; handles are pointers, enumerations int. */
struct Cudnn {
  void *handle, *tensor;
  int (*set_stream)(void *handle, cudaStream_t stream);
  int (*set_tensor)(void *tensor, int format, int type, int n, int c, int h, int w);
  int (*forward)(void *handle, int algorithm, int mode, const void *alpha, void *in_tensor,
                 const void *in, const void *beta, void *out_tensor, void *out);
  bool works;
};

/* Opened at the first call, for the rest of the process. */
const Cudnn &cudnn() {
  static const Cudnn opened = [] {
    Cudnn c = {};
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!library) return c;
    int (*create)(void **);
    int (*create_tensor)(void **);
    const auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    c.works = find(create, "cudnnCreate") && find(create_tensor, "cudnnCreateTensorDescriptor") &&
              find(c.set_stream, "cudnnSetStream") &&
              find(c.set_tensor, "cudnnSetTensor4dDescriptor") &&
              find(c.forward, "cudnnSoftmaxForward") && create(&c.handle) == 0 &&
              create_tensor(&c.tensor) == 0;
    return c;
  }();
  return opened;
}

cudaError_t launch_cudnn(const LabCall *call) {
  enum { NCHW = 0, FLOAT = 0, ACCURATE = 1, INSTANCE = 0 };
  const Cudnn &c = cudnn();
  const float one = 1.0f, zero = 0.0f;
  const bool queued = c.set_stream(c.handle, call->stream) == 0 &&
                      c.set_tensor(c.tensor, NCHW, FLOAT, (int)call->size.dim[0],
                                   (int)call->size.dim[1], 1, 1) == 0 &&
                      c.forward(c.handle, ACCURATE, INSTANCE, &one, c.tensor, call->d_in[0], &zero,
                                c.tensor, call->d_out) == 0;
  const cudaError_t status = cudaGetLastError();
  return queued || status != cudaSuccess ? status : cudaErrorNotSupported;
}

const char *refuse_cudnn(const LabCall *call) {
  if (call->size.dim[0] * call->size.dim[1] > INT32_MAX)
    return "cuDNN's tensors have fewer than 2^31 values";
  return cudnn().works ? nullptr : "cuDNN (libcudnn.so.9) is not there or does not start";
}

} // namespace
