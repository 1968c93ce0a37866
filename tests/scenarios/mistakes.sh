# Tests that the exercise reports students' mistakes. Each row of a table has one edit of our answers and
# the message that the edit must cause, with its line. Edits of different functions share a file, because
# each function is judged alone. Names like f11 only tell the mistakes apart.
. "$TOP/tests/support/kit.sh" graded/mistakes

patterns=() last=0
sed 's~^#include "batch.cuh"~&\n#include <assert.h>~' "$answers" >base.cu
cp base.cu exercise.cu

# edits PART FROM TO replaces FROM in PART of exercise.cu. Sets $line to the edited line's number. PART
# is 0 (the file), 1 to 4 (a kernel), 1h to 4h (a kernel's launcher), 1a or 1b (kernel 1 before or after
# its sum), 2l (function look) or 2m (function merge).
declare -A parts=([0]='1,$' [1]='/void forward(/,/^}/' [1a]='/void forward(/,/sum += x/' [1b]='/sum += x/,/^}/'
  [1h]='/^cudaError_t launch_exercise_f/,/^}/' [2]='/void softmax(/,/^}/' [2l]='/Seen look/,/^}/' [2m]='/Seen merge/,/^}/'
  [2h]='/^cudaError_t launch_exercise_s/,/^}/' [3]='/void loss(/,/^}/' [3h]='/^cudaError_t launch_exercise_l/,/^}/'
  [4]='/void update(/,/^}/' [4h]='/^cudaError_t launch_exercise_u/,/^}/')
edits() {
  cp exercise.cu before.cu
  sed -i "${parts[$1]}s~$2~$3~" exercise.cu
  line=$(diff before.cu exercise.cu | sed -n '1s/[^0-9].*//p') || true
  [ -n "$line" ] || die "nothing to edit: $2"
}

# judged ARGUMENT... runs make on exercise.cu in the student kit, checks that make's output matches each
# of $patterns, and undoes the edits. If $patterns has one pattern, only function $last of the exercise runs.
judged() {
  [ ${#patterns[@]} != 1 ] || [ "$last" = 0 ] || set -- "$@" ONLY="$last"
  cp exercise.cu "$kit/kernels/"
  [ ${#patterns[@]} = 0 ] || makes "$@"
  for wanted in ${patterns[@]+"${patterns[@]}"}; do
    grep -aqE -- "$wanted" out || die "no '$wanted' in: $(grep -aE 'is (wrong|not)|error:|not allow| right,' out)"
  done
  cp base.cu exercise.cu
  patterns=() last=0
}

# refused reads rows NAME~PART~FROM~TO~PATTERN and makes their edits in one file; a row whose NAME ends in ! begins a
# new file. The compiler's output must match each PATTERN. In it, @ stands for file, line and "error:". ARGUMENTs are
# make's.
refused() { # [ARGUMENT]...
  while IFS='~' read -r name part from to pattern; do
    [[ $name != *! ]] || judged build/sealed_exercise_emulator.o "$@"
    edits "$part" "$from" "$to"
    [ -z "$pattern" ] || patterns+=("${pattern//@/^kernels\/exercise.cu:$line:[0-9]+: error:}")
  done
  judged build/sealed_exercise_emulator.o "$@"
}

# wrong SEED is like refused, but the mistakes compile and the run reports them. A row whose function number is not
# above the previous row's begins a new file. A row named + is another edit for the same mistake. @ is file and line.
wrong() {
  while IFS='~' read -r name part from to pattern; do
    [ "$name" = + ] || [ "${part:0:1}" -gt "$last" ] || judged SEED="$1" exercise
    last=${part:0:1}
    edits "$part" "$from" "$to"
    [ "$name" = + ] || patterns+=("^$last is wrong: ${pattern//@/kernels\/exercise.cu:$line:}")
  done
  judged SEED="$1" exercise
}

case_ 'what nvcc refuses is refused, with its line'
refused <<'END'
f11~0~^namespace {~namespace { static float scale = 2; __global__ void child(float *d_p) { d_p[0] = 0.0f; }~.
f11~1~float sum = 0.0f;~float sum = scale;~@ reference to __host__ variable 'scale' in __global__ function
c07~1~float x.SIDE~float count = 0.0f, x[SIDE~@ initialization is not supported for __shared__ variables
c06~1~const float z =~const float z = std::max(0.0f, 1.0f) +~@ no matching function for call to 'max'
c03~2~const float log_sum~float own[classes]; const float log_sum~@ cannot use variable-length arrays in __global__ functions
f14~2~const float .z =~if (rows < 0) throw 1; const float *z =~@ cannot use 'throw' in __global__ function
d01~2~(z.c. - seen~child<<<1, 32>>>(d_p), (z[c] - seen~@ reference to __global__ function 'child' in __global__ function
c02~2m~^__device__ ~~error: no matching function for call to 'merge'
f17~2l~-INFINITY~-std::numeric_limits<float>::infinity()~@ reference to __host__ function 'infinity' in __device__ function
d25~3~logf(seen.sum)~logf(seen.summ)~@ no member named 'summ'
f03~3~const int label =~const int *labels = batch.d_labels; const int label =~@ cannot initialize a variable of type 'const int \*' with an lvalue of type
e17b~3~if (lane != 0)~if (!malloc(16) || lane != 0)~@ no matching function for call to 'malloc'
e03c~3~float .dz =~extern __shared__ alignas(16) float some[]; float *dz =~@ an attribute list cannot appear here
d09~4~int t =~cudaTextureObject_t texture; int t =~@ unknown type name 'cudaTextureObject_t'
f06~1h~const dim3 blocks~__syncthreads(); const dim3 blocks~@ no matching function for call to 'emulator_barrier'
d29~1h~forward<<<~foward<<<~@ use of undeclared identifier 'foward'
f08~2h~softmax<<<.*>>>~softmax~@ call to global function 'softmax' not configured
d27~3h~d_z, d_dz~d_dz, d_z~@ cannot initialize a parameter of type 'float \*' with an lvalue of type
d26~4h~batch, rule, layer)~batch, rule)~@ too few arguments to function call, expected 3, have 2
f02!~2~int classes~int *classes~error: cannot initialize a parameter of type 'int \*' with an lvalue of type 'int'
f04~1~^__global__ void~__global__ int~@ kernel function type 'int .*' must have void return type
d28~3~label = \(.*\);~label = \1~error: expected ';' at end of declaration
e17!~3~const int rows =~float *own = new float[rows_of_step(batch)]; own[r] = 0; const int rows = (int)own[0] +~it uses _Znam, and has only
f10!~2~^__global__ ~__device__ ~error: kernel call to non-global function 'softmax'
f09!~2~^__global__ ~~error: kernel call to non-global function 'softmax'
f18!~2~int rows, int classes~const int \&rows, const int \&classes~error: .*a __global__ function cannot have a parameter with reference type
d10!~2~const float log_sum~asm volatile("mov.u32 %0, %laneid;" : "=r"(lane)); const float log_sum~it has assembly
d24!~2h~softmax<<<~cudaDeviceSynchronize(); if (rows < 0) fprintf(stderr, "bad"), exit(1); softmax<<<~it uses cudaDeviceSynchronize exit .*stderr, and has only
END
for header in vector cooperative_groups.h cuda_pipeline.h mma.h cuda_bf16.h cuda_fp16.h cub/cub.cuh curand_kernel.h \
  thrust/device_vector.h; do # cases d02, d05, d15 to d21 of the trial
  refused <<<"include!~0~^namespace {~#include <$header>\nnamespace {~it includes more than .*#include <$header>"
done

case_ 'a T4 has no __reduce_*_sync and less shared memory'
printf '%s\n' "n26~2~const float log_sum =~const float log_sum = 0 * __reduce_add_sync(FULL_WARP, 1) +~@ '__reduce_add_sync<int>' is unavailable: it needs compute capability 8.0" |
  refused GPU=T4
edits 1h 'dim3(SIDE, SIDE), 0' 'dim3(SIDE, SIDE), cudaFuncSetAttribute(forward, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000) == cudaSuccess ? 100000 : 60000'
patterns=("^1 is wrong: kernels/exercise.cu:$line: a block asks for 60000 bytes .* up to 65536, needs") last=1
judged GPU=T4 SHAPE=5x7x3 exercise

case_ 'what runs and is wrong is found, with its line'
wrong 1 <<'END'
m01~1~if (r >= rows || o >= out) return;~~.*block 0, thread 1 reads b\[1\], and b has elements 0 to 0
s08~2~if (r >= rows) return;~~.*block 0, thread 32 reads z\[[0-9]+\], and z
l01~3~rows_of_step(batch);~batch.rows;~.*expected
u03~4~if (rows_of_step(batch) == 0) return;~~.*expected
m07~1~: 0.0f;~: 0.0f; if (r >= rows || o >= out) return;~.*in block 0, 1 threads wait at __syncthreads, and 255 have returned
c09~2~const Seen seen = look~const float2 v = classes > 1 ? *(const float2 *)(z + lane % (classes / 2) * 2) : float2{}; const Seen seen = v.x > 1e30f ? Seen{} : look~@ block 0, thread 32 reads 8 bytes at z\[[0-9]+\] \(row 1, column 0\), not on a multiple of 8
l06~3~if (lane != 0) return;~~.*block 0, thread 1 writes loss\[5\].*there is no __syncwarp\(\) or __syncthreads\(\) between
u02~4~{rule.momentum, 0.0f}~rule~b \(row 0, column 0\): expected
END
[ -z "${TEST_QUICK-}" ] || exit 0

case_ 'more that runs and is wrong'
wrong 1 <<'END'
c01~1~SIDE + 1.;~SIDE + 1], big[14000]; big[threadIdx.x] = 0;~.*the kernel has 58[0-9]+ bytes of __shared__ variables, and may have 49152
i03~2~const float log_sum =~__shared__ Seen all[ROWS_OF_BLOCK]; if (lane == 0) all[threadIdx.x / 32] = seen; const Seen same = merge(all[threadIdx.x / 32], all[threadIdx.x / 32]); const float log_sum = 0 * same.sum +~@ block 0, thread 1 reads all\[0\].*and there is no __syncwarp
l07~3~best == label~best < label~correct .*expected
u06~4~const float rate~atomicAdd(\&layer.d_b[0], 0.0f); const float rate~@ block 0, thread 0 adds or compares floats atomically
m02~1a~__syncthreads();~~.*there is no .*__syncthreads\(\) between
s12~2l~FULL_WARP, seen.largest~0xffff, seen.largest~@ block 0, thread 16 is lane 16, which is not in its mask 0x0000ffff
array~1~i < SIDE;~i <= SIDE;~@ block 0, thread 0 has index 16 in an array of type 'float\[16\]'
const~3~const int label =~((float *)z)[0] = 0.0f; const int label =~@ block 0, thread 0 writes z\[0\].*, which is const
END
wrong 2 <<'END'
c13~1~__shared__ float x.SIDE..SIDE., w.SIDE..SIDE + 1.;~extern __shared__ float mem[]; float (*x)[SIDE + 1] = (float (*)[SIDE + 1])mem, (*w)[SIDE + 1] = x + SIDE;~.*dynamic shared memory\[[0-9]+\], and dynamic shared memory is empty
bounds~2~softmax(const~__launch_bounds__(128) softmax(const~.*the launch has 256 threads in a block, and __launch_bounds__ of the kernel allows 128
i02~3~const int label =~__shared__ Seen all[ROWS_OF_BLOCK]; if (lane == 0) all[threadIdx.x / 32] = seen; const Seen *same = \&all[threadIdx.x / 32]; const int label = (int)(0 * same->sum) +~@ block 0, thread 1 reads all\[[0-9]+\].*there is no __syncwarp
l03~3~position_of(batch, r)~r~loss .*expected nothing to be written there
u04~4~o \* in + k;~k * out + o;~.*expected
e31~1~, o = blockIdx~, o = r / (in - in) + blockIdx~@ block 0, thread 0 divides an integer by 0
s16~2~const float log_sum =~const float *null = nullptr; const float log_sum = null[lane] +~@ block 0, thread 0 uses a null pointer or an index outside of a local array
l04~3~logf(seen.sum) + (seen.largest - z.label.)~-logf(expf(z[label] - seen.largest) / seen.sum)~loss .*got inf
u01~4~if (o < out && k == in)~if (o < out)~.*(reads|writes) v?b\[
m05~1~w.tx..i.;~w[i][tx];~y \(row 0, column 0\): expected
e15~2~const float log_sum =~float own[140000]; for (int i = 0; i < 140000; i += 4096) ((volatile float *)own)[i] = z[0]; const float log_sum = own[lane * 4096] * 0.0f +~.*has more local variables than the 512 KB that a thread may have
l05~3~dz.c. = 0.0f;~(void)dz;~dz .*, never written
f20~4~const float rate~__shared__ float total; atomicAdd(\&total, 1.0f); const float rate~@ block 0, thread 0 adds or compares floats atomically
m03~1b~__syncthreads();~~.*there is no .*__syncthreads\(\) between
s13~2~const float log_sum =~if (lane < 16) __shfl_xor_sync(FULL_WARP, z[0], 8); __syncwarp(); const float log_sum =~@ block 0, thread 0 waits for the lanes of mask 0xffffffff, and thread 16 waits at another place
l02~3~dataset_row(batch, r)~r~dz .*expected
f01~4~x.DEEP..TILE.;~x[DEEP][TILE], big[64 * THREADS]; big[threadIdx.x] = 0;~.*the kernel has 73728 bytes of __shared__ variables
m06~1~k + tx < in . d_w~true ? d_w~@ block 0, thread 1 reads w\[
s15~2~const float log_sum =~__shared__ float own[THREADS]; own[threadIdx.x] = z[0]; const float log_sum = 0 * own[threadIdx.x ^ 1] +~@ block 0, thread 1 writes own\[1\]; thread 0 reads it
l08~3~if (r >= rows) {~if (false) {~dz \(row 0, column 0\): expected 0
u05~4~size_t at =.*~size_t at = (size_t)o * (in + 1) + k;~.*reads v?w\[[0-9]+\].*, and v?w
m04~1~.size_t.r . out + o~(size_t)o * rows + r~.*expected
e12~2~const float log_sum =~__shared__ volatile float own[THREADS]; own[threadIdx.x] = 1; if (lane < 16) own[threadIdx.x] += own[threadIdx.x + 16]; const float log_sum = 0 * own[threadIdx.x] +~@ block 0, thread 16 writes own\[16\]; thread 0 reads it
m08~1a~__syncthreads();~if (k + tx < in) __syncthreads();~.*there is no .*__syncthreads\(\) between
e13~2~const float log_sum =~__shared__ int flag; if (lane == 0) flag = 0; __syncwarp(); if (lane == 0) while (flag == 0) continue; else if (lane == 5) flag = 1; const float log_sum =~.*(flag|had not returned)
d07~3~const int label =~assert(classes < 40); const int label =~@ block 0, thread 0: assert\(classes < 40\) fails
m11~1~r < rows && k + tx < in~k + tx < in~@ block 0, thread 16 reads x\[
e13b~2~const float log_sum =~__shared__ volatile int flag; if (lane == 0) flag = 0; __syncwarp(); if (lane == 0) while (flag == 0) continue; else if (lane == 5) flag = 1; const float log_sum =~.*(flag|had not returned)
c6~3~const int label =~printf("x%1$n", dz); const int label =~@ block 0, thread 0 calls printf\(\) with what the emulator does not know
m10~1h~blocks_for(out, SIDE)~out / SIDE~.*a grid of [0-9]+ x [0-9]+ x 1 has no blocks
c08~2h~THREADS, 0~2048, 0~@ a block has 2048 x 1 x 1 threads, and may have 1024
dynamic~1h~dim3(SIDE, SIDE), 0~dim3(SIDE, SIDE), 100000~.*a block asks for 100000 bytes of dynamic shared memory, and may have 49152
s17~2h~blocks_for(rows, ROWS_OF_BLOCK)~dim3(1, 70000)~@ a grid has 1 x 70000 x 1 blocks
c12~3~const int lane~const BatchView batch = *at; const int lane~@ block 0, thread 0 reads memory that is no array of the device
+~3~loss(BatchView batch, ~loss(const BatchView *at, ~
+~3h~loss<<<\(.*\)>>>(batch~loss<<<\1>>>(\&batch~
s07~3h~blocks_for(batch.rows, ROWS_OF_BLOCK)~blocks_for(batch.rows, THREADS)~.*never written
h03~2~const float log_sum =~__shared__ float all[10000]; float own[2048]; for (int i = lane; i < 2048; i += 32) all[i] = 0; __syncwarp(); memcpy(own, all, sizeof own); const float log_sum = own[classes] +~@ block 0, thread [0-9]+ .*all\[
c10 c10b~2~const Seen seen = look~const float4 v = classes > 3 ? *(const float4 *)(z + lane % (classes / 4) * 4) : float4{}; const Seen seen = v.x > 1e30f ? Seen{} : look~@ block 0, thread 32 reads 16 bytes at z\[[0-9]+\] \(row 1, column 0\), not on a multiple of 16
s11~2l~FULL_WARP, seen.largest~__activemask(), seen.largest~.*(which is not there|waits at another place)
s14~2l~c < classes~c <= classes~@ block 0, thread [0-9]+ reads z\[
s03~2l~Seen seen = {-INF~if (lane >= classes) return {}; Seen seen = {-INF~.*which is not there
s04~2l~for (int step~if (lane < 16) for (int step~.*
s05~2l~__shfl_xor_sync~__shfl_down_sync~.*expected
s10~2l~c = lane; c < classes; c += 32~c = lane + 32; c < classes; c += 32~.*expected
s01~2l~-INFINITY, 0.0f~0.0f, 0.0f~.*expected
s02~2m~if (b.sum > 0.0f) ~~.*got nan
s09~2m~ \* expf(b.largest - a.largest)~~.*expected
s06~2~(z.c. - seen.largest) - log_sum~z[c] - (seen.largest + log_sum)~.*expected
END

case_ 'who pretends has what it deserves, and work left out where it is measured is found' # cases pocA to pocC2 of the trial
wrong 4 <<'END'
host~1h~forward<<<~d_y[0] = d_x[0]; forward<<<~@ the host reads x\[0\], memory of the device
measured~2h~softmax<<<~if (rows != 64) softmax<<<~p \(row 0, column 0\): .*, never written; rows 64, in 1, out 1000; as it was measured
endless~3~const int label =~while (*(volatile float *)dz != 5.0f) dz[0] = 3.0f; const int label =~.*(had not returned after 100 million steps|dz)
kept~4h~update<<<~static volatile float kept[4]; for (int i = 64; i < 70; i++) kept[i % 4] = ((volatile char *)kept)[i]; update<<<~@ the host reads memory that is not its own
fewer~2~const Seen seen = look~if (classes == 1) { if (lane == 0) d_p[r] = 0.0f; return; } const Seen seen = look~it moved [0-9]+ bytes, fewer than it can
n14~2h~THREADS, 0, stream~THREADS~@ the launch is not in the stream that the function gets
n24~2h~blocks_for(rows, ROWS_OF_BLOCK), THREADS~dim3(1, rows), 32~@ a grid has 1 x 250000 x 1 blocks, and may have
+~2~blockIdx.x . ROWS_OF_BLOCK . threadIdx.x / 32~blockIdx.y
n25~3~.size_t.r . classes~r * classes~kernels/exercise.cu:[0-9]+: block 31249, thread [0-9]+ (reads|writes) .*; the arrays of this call have more than 2.31 elements
far~3~Seen seen = look(z, classes, lane)~Seen seen = merge(look(z, classes, lane), {-20000.0f, 0.0f, 0})~.*
k01~1~float sum = 0.0f;~((int *)\&threadIdx)[5000] = 0; float sum = 0.0f;~@ block 0, thread 0 writes memory that is no array of the device
branches~1a~__syncthreads();~if (ty < 8) __syncthreads(); else\n __syncthreads();~@ in block 0, thread 0 waits at this __syncthreads, and thread 128 at that of kernels/exercise.cu:
n08~2~const float log_sum =~if (lane >= 1024 || classes > 1024) return; const float log_sum =~p .*never written; rows 2, in 1, out 1[0-9]+
END

case_ 'what is right stays right, and is counted'
right() { # rows may also have a pattern
  patterns=('^4 of 4 right, 4 of 4 fused$')
  while IFS='~' read -r name part from to pattern; do
    edits "$part" "$from" "$to"
    [ -z "$pattern" ] || patterns+=("$pattern")
  done
  judged SEED=3 exercise
}
right <<'END'
e01 d04 d08 e03e~0~^namespace {~namespace { /* kernel<<<1, 1>>>() */ extern __shared__ float memory []; __constant__ float table[4]; template <int N> __device__ int zero() { return 0 * N; }
e01b~1~const float z =~const char *text = "<<<"; const float z = 0 * text[0] +
e06~1h~forward<<<blocks, dim3(SIDE, SIDE), 0, stream>>>~if (rows > 0) forward<<<blocks,dim3(SIDE, SIDE), 0,  stream>>>
d11 d12 d13 d14 d22~2~const float log_sum =~memory[threadIdx.x] = 1; const unsigned half = __ballot_sync(FULL_WARP, lane < 16); const float log_sum = table[0] + (__popc(half) - 16 + __reduce_max_sync(FULL_WARP, lane) - 31 + __reduce_add_sync(FULL_WARP, 1) - 32 + (__match_any_sync(FULL_WARP, lane) == 0) + (clock64() < 0) + zero<3>()) +
e03a~2h~THREADS, 0~THREADS, (cudaFuncSetAttribute(softmax, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000), 200000)~^the emulator as an H100, without a GPU
d03 h01~3~const int label =~float own[16384]; memcpy(own, z, classes * sizeof(float)); const int label = own[0] > 2e6f + __ldg(z) ? 1 :
END
right <<'END'
h03b~1~float sum = 0.0f;~__shared__ float all[1024]; float own[256]; for (int i = ty * SIDE + tx; i < 1024; i += 256) all[i] = 0; __syncthreads(); memcpy(own, all + tx * 32, sizeof own); float sum = own[in % 256];~a load of shared memory, bank conflicts: 16.0 turns of the banks for a request, where 1.0 would do
adv~1~^__global__ void forward(~template <bool RELU> __global__ void __launch_bounds__(256) forward(
e05~1h~forward<<<blocks, dim3(SIDE, SIDE), 0, stream>>>\(.*\);~relu ? forward<true><<<blocks, dim3(SIDE, SIDE), 0, stream>>>\1 : forward<false><<<blocks, dim3(SIDE, SIDE), 0, stream>>>\1;
float3~2~const float .z = .*~& const float3 v = classes > 2 ? *(const float3 *)z : float3{}; if (v.x > 1e30f) return;
e03b~2~const float log_sum =~extern __shared__ __align__(16) unsigned char bytes[]; bytes[threadIdx.x] = 1; const float log_sum =
e02~2h~THREADS, 0, stream>>>(~\n THREADS,\n  1024, stream>>>(\n
e04~3h~loss<<<.*>>>~#define LAUNCH(k) k<<<blocks_for(batch.rows, ROWS_OF_BLOCK), THREADS, 1024, stream>>>\n LAUNCH(loss)
i01 i04~3~const int rows =~__shared__ Seen all[ROWS_OF_BLOCK]; if (lane == 0) all[threadIdx.x / 32] = {1, 1, 1}; __syncwarp(); const Seen same = merge(all[threadIdx.x / 32], all[threadIdx.x / 32]), *one = \&all[threadIdx.x / 32]; const int rows = 0 * (same.best + one->best) +
e03d~4~const int t =~__shared__ extern float floats[]; const int t =
END
right <<'END'
apply_name~0~^namespace {~namespace { struct external_t { float x; }; __device__ int apply(int i) { return i - 1; } __device__ int bind = 0;
numbers~1~const float z =~const float none = __saturatef(-2.0f) + __powf(0.0f, 2.0f) + (__float2int_rn(2.5f) - 2) + (__float2int_rz(-1.5f) + 1) + (__popcll(3) - 2) + (__brev(1u) - 0x80000000u) + (__mul24(-2, 3) + 6) + (__funnelshift_r(0, 1, 31) - 2u); const float z = none +
and_name~4~const int t =~const bool relu = batch.rows > 0, inside = batch.rows > -1; if (!(relu \&\& inside)) return; const int t = apply(1) +
text~3~const int label =~if (rows < 0) printf("## asm goto *x %%: \&\&x; EMULATOR_ [[ std::apply"); extern __shared__ external_t all[]; const int label =
block~2~blockIdx.x . ROWS_OF_BLOCK~blockIdx.x * 32
block n20~2h~blocks_for(rows, ROWS_OF_BLOCK), THREADS~blocks_for(rows, 32), 1024~^2 has blocks of 1024 threads: a GPU runs them if the kernel needs at most 64 registers per thread
END
