/* The tensor-core rungs of matmul.cu. The one for any GPU since Ampere is in matmul_mma.cu. Rungs
   with instructions of compute capability 9.0 are in matmul_hopper.cu.

   C (m, n) = A (m, k) B (k, n), row-major; A and B are bf16, C is float32. A tensor core multiplies
   bf16 numbers exactly and adds in float32, a tile at a time. */
#pragma once

#include "bf16_split.cuh"
#include "lab/matmul_tile.cuh"

using Bf16Matrices = MatricesOf<__nv_bfloat16>; /* rows start on 16 bytes: k, n multiples of 8 */

/* ---- launchers ------------------------------------------------------------------------------- */

/* matmul_mma.cu */
cudaError_t launch_matmul_stages(const LabCall *call);

/* matmul_hopper.cu */
enum HopperRung { WGMMA, SPECIALISED, CLUSTERS };
using HopperLaunch = cudaError_t(const LabCall *call);
extern HopperLaunch *const matmul_hopper[];

/* Returns why a GPU cannot run those (one clause), or NULL. */
const char *matmul_hopper_refuses(const LabCall *call);
