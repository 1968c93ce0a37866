# Mistakes: each is an edit of our answers to the exercise, with what is said of it and where. Edits of functions that
# ascend are one file, for each function is judged apart. TEST_QUICK leaves out the later tables.
graded=$TOP/build/graded/mistakes
kit=$graded/student-kit
answers=$TOP/docs/teaching/answers/exercise.cu

if ! command -v "${CXX:-g++}" >/dev/null || ! command -v clang++ >/dev/null; then
  case_ 'mistakes of students'
  skip_ 'there is no C++ compiler, or no clang++'
  exit 0
fi

mkdir -p "$graded"
[ ! -d "$kit/build" ] || mv "$kit/build" "$graded/kept"
(cd "$TOP" && scripts/student_kit.sh build/graded/mistakes) >out
[ ! -d "$graded/kept" ] || mv "$graded/kept" "$kit/build"

# makes ARGUMENT...: what make said of exercise.cu is in out.
makes() {
  cp exercise.cu "$kit/kernels/"
  env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s -C "$kit" CFLAGS=-O2 ON=emulator "$@" >out 2>&1 || true
}

# edits PART FROM TO: edits exercise.cu; $line is that of the edit. PART: a function, a part of 2 and 3, 0 for all.
declare -A parts=([0]='1,$' [1]='/void forward(/,/^}/' [2]='/void softmax(/,/^}/' [2l]='/Seen look/,/^}/'
  [2m]='/Seen merge/,/^}/' [3]='/void loss(/,/^}/' [4]='/void update(/,/^}/' [1h]='/^cudaError_t launch_exercise_f/,/^}/'
  [2h]='/^cudaError_t launch_exercise_s/,/^}/')
edits() {
  sed "${parts[$1]}s~$2~$3~" "$answers" >alone
  line=$(diff "$answers" alone | sed -n '1s/[^0-9].*//p') || true
  [ -n "$line" ] || die "nothing to edit: $2"
  sed -i "${parts[$1]}s~$2~$3~" exercise.cu
}

# expects: each of the patterns is found in what was said.
expects() {
  for wanted in ${patterns[@]+"${patterns[@]}"}; do
    grep -aqE -- "$wanted" out || die "no '$wanted' in: $(grep -aE 'is (wrong|not)|error:|not allow| right,' out)"
  done
}

# judges ARGUMENT...: PART~FROM~TO~PATTERN of standard input; @ is the line.
judges() {
  last=9 patterns=()
  while IFS='~' read -r part from to pattern; do
    if [ "${part:0:1}" -le $last ]; then
      [ $last = 9 ] || { makes "$@" exercise && expects; }
      cp "$answers" exercise.cu
      patterns=()
    fi
    last=${part:0:1}
    edits "$part" "$from" "$to"
    patterns+=("^$last is wrong: ${pattern//@/kernels\/exercise.cu:$line:}")
  done
  makes "$@" exercise
  expects
}

case_ 'what nvcc refuses is refused, with its line'
cp "$answers" exercise.cu
patterns=()
while IFS='~' read -r part from to pattern; do
  edits "$part" "$from" "$to"
  patterns+=("${pattern//@/^kernels\/exercise.cu:$line:[0-9]+: error:}")
done <<'END'
0~^namespace {~namespace { float scale = 2;~.
1~float x.SIDE~float count = 0.0f, x[SIDE~@ initialization is not supported for __shared__ variables
1~float sum = 0.0f;~float sum = scale;~@ reference to __host__ variable 'scale' in __global__ function
1~const float z =~const float z = std::max(0.0f, 1.0f) +~@ no matching function for call to 'max'
2~const float log_sum~float own[classes]; const float log_sum~@ cannot use variable-length arrays in __global__ functions
2~const float .z =~if (rows < 0) throw 1; const float *z =~@ cannot use 'throw' in __global__ function
2m~^__device__ ~~error: no matching function for call to 'merge'
2l~-INFINITY~-std::numeric_limits<float>::infinity()~@ reference to __host__ function 'infinity' in __device__ function
3~logf(seen.sum)~logf(seen.summ)~@ no member named 'summ'
4~int t =~int u = vector; const int t =~@ use of undeclared identifier 'vector'
1h~const dim3 blocks~__syncthreads(); const dim3 blocks~@ no matching function for call to '__syncthreads'
2h~softmax<<<.*>>>~softmax~@ call to global function 'softmax' not configured
END
makes build/sealed_emulator.o
expects

case_ 'what runs and is wrong is found, with its line'
judges SEED=1 <<'END'
1~if (r >= rows || o >= out) return;~~.*block 0, thread 1 reads b\[1\], and b has elements 0 to 0
2~if (r >= rows) return;~~.*block 0, thread 32 reads z\[[0-9]+\], and z
3~rows_of_step(batch);~batch.rows;~.*expected
4~if (rows_of_step(batch) == 0) return;~~.*expected
1~: 0.0f;~: 0.0f; if (r >= rows || o >= out) return;~.*in block 0, 1 threads wait at __syncthreads, and 255 have returned
2~const Seen seen = look~const float2 v = classes > 1 ? *(const float2 *)(z + lane % (classes / 2) * 2) : float2{}; const Seen seen = v.x > 1e30f ? Seen{} : look~@ block 0, thread 32 reads 8 bytes at z\[[0-9]+\] \(row 1, column 0\), not on a multiple of 8
3~if (lane != 0) return;~~.*block 0, thread 1 writes loss\[5\].*there is no __syncwarp\(\) or __syncthreads\(\) between
4~{rule.momentum, 0.0f}~rule~b \(row 0, column 0\): expected
1~SIDE + 1.;~SIDE + 1], big[14000]; big[threadIdx.y * SIDE + threadIdx.x] = 0; if (big[threadIdx.y * SIDE + threadIdx.x] > 0) return;~.*the kernel has 5[0-9]+ bytes of __shared__ variables, and may have 49152
2~const float log_sum =~__shared__ Seen all[ROWS_OF_BLOCK]; if (lane == 0) all[threadIdx.x / 32] = seen; const Seen same = merge(all[threadIdx.x / 32], all[threadIdx.x / 32]); const float log_sum = 0 * same.sum +~@ block 0, thread 1 reads all\[0\].*and there is no __syncwarp
3~best == label~best < label~correct .*expected
4~const float rate~atomicAdd(\&layer.d_b[0], 0.0f); const float rate~@ block 0, thread 0 adds or compares floats atomically
END
[ -z "${TEST_QUICK-}" ] || exit 0

for compiler in clang++ g++; do
  case_ "more that runs and is wrong, by $compiler"
  judges SEED=2 STUDENT_CXX=$compiler <<'END'
1~__shared__ float x.SIDE..SIDE., w.SIDE..SIDE + 1.;~extern __shared__ float mem[]; float (*x)[SIDE + 1] = (float (*)[SIDE + 1])mem, (*w)[SIDE + 1] = x + SIDE;~.*dynamic shared memory\[[0-9]+\], and dynamic shared memory is empty
2~softmax(const~__launch_bounds__(128) softmax(const~.*the launch has 256 threads in a block, and __launch_bounds__ of the kernel allows 128
3~position_of(batch, r)~r~loss .*expected nothing to be written there
4~o \* in + k;~k * out + o;~.*expected
1~, o = blockIdx~, o = r / (in - in) + blockIdx~@ block 0, thread 0 divides an integer by 0
2~const float log_sum =~const float *null = nullptr; const float log_sum = null[lane] +~@ block 0, thread 0 reads a null pointer
3~logf(seen.sum) + (seen.largest - z.label.)~-logf(expf(z[label] - seen.largest) / seen.sum)~loss .*got inf
4~if (o < out && k == in)~if (o < out)~.*vb
1~w.tx..i.;~w[i][tx];~y \(row 0, column 0\): expected
2~const float log_sum =~float own[140000]; for (int i = 0; i < 140000; i += 4096) ((volatile float *)own)[i] = z[0]; const float log_sum = own[lane * 4096] * 0.0f +~.*has more local variables than the 512 KB that a thread may have
3~dz.c. = 0.0f;~(void)dz;~dz .*all, never written
1~__syncthreads();~~.*there is no .*__syncthreads\(\) between
2~const float log_sum =~if (lane < 16) __shfl_xor_sync(FULL_WARP, z[0], 8); __syncwarp(); const float log_sum =~@ block 0, thread 0 waits for the lanes of mask 0xffffffff, and thread 16 waits at another place
3~dataset_row(batch, r)~r~dz .*expected
1~k + tx < in . d_w~true ? d_w~@ block 0, thread 1 reads w\[
2~d_p..size_t.r . classes + c. =~d_p[(size_t)c * rows + r] =~.*expected
1h~blocks_for(out, SIDE)~out / SIDE~.*a grid of [0-9]+ x [0-9]+ x 1 has no blocks
2h~THREADS, 0~2048, 0~@ a block has 2048 x 1 x 1 threads, and may have 1024
1h~dim3(SIDE, SIDE), 0~dim3(SIDE, SIDE), 100000~.*a block asks for 100000 bytes of dynamic shared memory, and may have 49152
2h~blocks_for(rows, ROWS_OF_BLOCK)~dim3(1, 70000)~@ a grid has 1 x 70000 x 1 blocks
2l~FULL_WARP, seen.largest~0xffff, seen.largest~@ block 0, thread 16 is lane 16, which is not in its mask 0x0000ffff
2l~FULL_WARP, seen.largest~__activemask(), seen.largest~.*(which is not there|waits at another place)
2l~c < classes~c <= classes~@ block 0, thread [0-9]+ reads z\[
2l~Seen seen = {-INF~if (lane >= classes) return {}; Seen seen = {-INF~.*which is not there
2l~-INFINITY, 0.0f~0.0f, 0.0f~.*expected
2m~if (b.sum > 0.0f) ~~.*got nan
2m~ \* expf(b.largest - a.largest)~~.*expected
2~(z.c. - seen.largest) - log_sum~z[c] - (seen.largest + log_sum)~.*expected
END
done

case_ 'what is right stays right, and is counted'
cp "$answers" exercise.cu
patterns=('^4 of 4 right, 4 of 4 fused$')
while IFS='~' read -r part from to; do edits "$part" "$from" "$to"; done <<'END'
0~^namespace {~namespace { /* kernel<<<1, 1>>>() */ extern __shared__ float memory []; template <int N> __device__ int zero() { return 0 * N; }
1~const float z =~const char *text = "<<<"; const float z = 0 * text[0] +
1h~forward<<<blocks, dim3(SIDE, SIDE), 0, stream>>>~if (rows > 0) forward<<<blocks,dim3(SIDE, SIDE), 0,  stream>>>
2~const float log_sum =~memory[threadIdx.x] = 1; const unsigned half = __ballot_sync(FULL_WARP, lane < 16); const float log_sum = (__popc(half) - 16 + __reduce_max_sync(FULL_WARP, lane) - 31 + (__match_any_sync(FULL_WARP, lane) == 0) + (clock64() < 0) + zero<3>()) +
2h~THREADS, 0~THREADS, 1024
3~const int label =~float own[2]; memcpy(own, z, 4); const int label = own[0] > 2e6f + __ldg(z) ? 1 :
END
makes SEED=3 exercise
expects
