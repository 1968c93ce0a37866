/* The ground of the tests of kernels.h: guarded device memory, the same values on host and device,
   shapes, batches of stored rows, and how far from the float64 reference or cuBLAS a result may be.

   Every buffer that a kernel sees, input or output, stands between two guard zones, and all of it
   was poisoned before: every byte 0xFF, which as a float is NaN. So a value that was not written,
   or that was made from something outside an input, is NaN and passes no comparison; a write out
   of bounds is found in the guards by finish().

   TEST_QUICK in the environment is for compute-sanitizer: all but small shapes are left out, and
   so are cuBLAS and the guard zones, for memcheck finds the first byte out of bounds. */
#pragma once

#include <cublas_v2.h>

#include "base/random.h"
#include "exercise/reference.h"
#include "kernels.h"
#include "support/cuda_only.h"

extern cudaStream_t stream;
extern void *d_work; /* of all the updates, one after the other, as in an engine */

/* Fixtures of a group, and of its tests. */
int kernels_open(void **state);
int kernels_close(void **state);
int kernels_release(void **state);

/* A test that needs a GPU, and ends with finish(). */
#define KERNEL_TEST(name)                                                                          \
  static void on_gpu_##name(void);                                                                 \
  TEST_WITH(name, NULL, kernels_release) {                                                         \
    needs_gpu();                                                                                   \
    on_gpu_##name();                                                                               \
    finish();                                                                                      \
  }                                                                                                \
  static void on_gpu_##name(void)

/* A test that is walk(check): see for_all_shapes and for_many_layers. */
#define WALK_TEST(name, walk, check)                                                               \
  KERNEL_TEST(name) {                                                                              \
    walk(check);                                                                                   \
  }

/* The launcher queues its kernel, or refuses its arguments. */
#define LAUNCH(name, ...) CUDA_OK(launch_##name(__VA_ARGS__, stream))
#define REFUSED(name, ...) CUDA_REFUSED(launch_##name(__VA_ARGS__, stream))

/* ---- guarded memory ------------------------------------------------------------------------- */

enum { POISON = 0xFF };

/* Host memory of any content, which lives until finish(). */
void *host(size_t bytes);
double *host_doubles(size_t count);
double *copy_of(const double *values, size_t count);

/* Poisoned device memory between guards, until finish(). */
void *poisoned(size_t bytes);
float *poisoned_floats(size_t count);
void *to_device(const void *data, size_t bytes);

/* Waits for the stream and returns a copy on the host, which lives until finish(). */
void *fetch(const void *d_data, size_t bytes);
float *fetch_floats(const float *d_data, size_t count);

bool is_poison(const void *data, size_t bytes);

/* Ends a case: nobody wrote outside its buffer; frees everything. */
void finish(void);

/* ---- values --------------------------------------------------------------------------------- */

/* The same values on both sides: float64, each exact in float32, and float32. */
typedef struct {
  double *host;
  float *d;
} Values;

/* Rounds `values` to float32 and copies them to the device. */
Values both_sides(double *values, size_t count);
Values values_between(double low, double high, size_t count, uint64_t seed);
/* Both signs, but a sum of products is seldom near 0, where a relative error means nothing. */
Values random_values(size_t count, uint64_t seed);
/* Both signs and zeros. */
Values signed_values(size_t count, uint64_t seed);

typedef struct {
  int rows, in, out;
} Shape;

/* The values of a layer's input, of its output and of its weights. */
#define x_count(s) area((s).rows, (s).in)
#define z_count(s) area((s).rows, (s).out)
#define w_count(s) area((s).out, (s).in)

typedef void CheckShape(Shape s, uint64_t seed);

/* Calls check_shape, then finish(), for these shapes; *seed: the first one's, 1000 more for each.
 */
void for_shapes(const Shape *shapes, size_t count, CheckShape *check_shape, uint64_t *seed);
/* The same for every shape of the list, or those for TEST_QUICK. */
void for_all_shapes(CheckShape *check_shape);

/* ---- comparisons ---------------------------------------------------------------------------- */

/* The relative error, in the Euclidean norm, allowed to a float32 sum of `terms` products that
   meets `others` roundings besides. */
double bound(int terms, int others);
/* The same for a kernel that multiplies floats as sums of some terms, which leave out `split`. */
double split_bound(double split, int terms, int others);
/* The share that bf16 terms (2 or 3) of each float leave out, or fp16 terms (1 or 2): two bf16 are
   within 2^-18 of a float, two fp16 within 2^-22, one within 2^-11; the product of two last terms,
   left out, is as much. tf32, 2^-11 a factor, would not pass for float32. */
#define bf16_split(terms) ((terms) == 2 ? 3 * 0x1p-18 : 0)
#define fp16_split(terms) ((terms) == 2 ? 3 * 0x1p-22 : 2 * 0x1p-11)

enum { GEMM_ROUNDING = 1, PIXEL_ROUNDINGS = 2, BIAS_ROUNDING = 1, UPDATE_ROUNDINGS = 4 };

/* Checks that the Euclidean norm of the error is at most `limit` of that of `expected`. */
void assert_near(const char *what, Shape s, const float *d_out, const double *expected,
                 size_t count, double limit);
/* Checks the same of a gemm, and of what cuBLAS makes of it (NULL when quick), which may be off as
   much. */
void assert_gemm(const char *what, Shape s, const float *d_out, const double *expected,
                 const double *library, size_t count, double limit);
void assert_exact(const float *d_out, const float *expected, size_t count);
/* Checks that the device's values are still the host's. */
void assert_untouched(Values v, size_t count);
/* Computes twice and checks that all device memory allocated meanwhile is the same, byte for byte;
   then calls finish(). */
void assert_same_bits_twice(CheckShape *compute, Shape s, uint64_t seed);
/* Checks that two arrays of the device have the same bytes. */
void assert_same_arrays(const void *d_a, const void *d_b, size_t bytes);
/* Checks that an array of the device was not written. */
void assert_unwritten(const void *d_data, size_t bytes);

/* The reference's gemm back to the input, on all threads of the host. */
double *expect_input_gradient(const double *dz, const double *w, Shape s);
/* Returns a new array, z + b in every row, through ReLU if `relu`; NULL if z is. */
double *add_bias(const double *z, const double *b, Shape s, bool relu);

/* C (m, n) of row-major matrices as cuBLAS computes it in true float32, in float64; NULL when
   quick. Each operand comes with the length of its rows. */
double *library_gemm(cublasOperation_t left_operation, const float *d_left, int left_columns,
                     cublasOperation_t right_operation, const float *d_right, int right_columns,
                     int m, int n, int depth);

/* ---- a batch of stored rows ----------------------------------------------------------------- */

typedef struct {
  BatchView view;
  StepState state;
  uint8_t *pixels; /* as d_pixels, and so on */
  uint16_t *labels;
  uint32_t *order;
  uint32_t dataset_rows;
  int filled; /* rows of the batch that the step has */
} Batch;

enum { OFFSET = 3, UPDATES = 5 };

/* left: rows from the step's first to the end of the range; 0 or less: the range is over. The
   order is shuffled or a run of rows. Pixels fill the rows' stride, so that what follows a row's
   inputs is anything but 0. */
Batch make_batch(int rows, int in, int classes, int left, bool shuffled, uint64_t seed);
/* The batch of a shape, of ten classes. A third of its rows are beyond the end; it is shuffled for
   every other seed that for_all_shapes() gives. */
Batch short_batch(Shape s, uint64_t seed);

/* The dataset's row that is row r of the batch. */
uint32_t batch_row(const Batch *b, int r);

/* The batch's input, (rows, in), float64. */
double *batch_input(const Batch *b, int in);

RowResults poisoned_results(const Batch *b);

/* ---- planes --------------------------------------------------------------------------------- */

/* Poisoned: a value that is read, but was not written, is NaN. The values may be up to `largest`.
 */
Planes make_planes(int terms, int rows, int columns, double largest);
size_t plane_bytes(Planes p);

/* ---- a layer -------------------------------------------------------------------------------- */

/* A layer forwards. */
typedef struct {
  Batch batch;
  LayerInput input; /* the batch's pixels, or x.d */
  Values x, w, b;   /* x: of pixels, too */
  double *z;        /* (rows, out), what the reference makes of x and w, without b */
  int roundings;    /* of a value with its bias, besides those of the sum */
} Forward;

/* Of pixels, a third of the rows are beyond the end. */
Forward make_forward(Shape s, bool pixels, uint64_t seed);

/* A layer's trained values and their momenta. Values are at least 1, more than an update of any
   of the shapes takes away. */
typedef struct {
  Values w, b, vw, vb;
} Parameters;

Parameters random_parameters(Shape s, uint64_t seed);

/* The learning rate of every batch. */
extern const float learning_rate;

enum { RULES = 3 };
extern const UpdateRule rules[RULES];

/* Checks that w, v (count values) on the device became what the reference makes of them with
   gradient g. */
void assert_updated(const char *what, Shape s, Values w, Values v, const double *g, size_t count,
                    UpdateRule rule, double limit);

/* A layer to be updated, and by what gradient. */
typedef struct {
  Shape shape;
  bool pixels;     /* its input is the batch's pixels */
  Values x, dz;    /* x: of pixels, too; dz is 0 in rows that the step does not have */
  double *dw, *db; /* what the reference says */
  Parameters p;
} Layer;

/* The layer's parameters are random_parameters(s, seed + 2). */
Layer make_layer(const Batch *batch, Shape s, bool pixels, uint64_t seed);
/* Checks that W and b became what the rule makes of the gradient, in kernels of so many terms.
   library: the weights' gradient by cuBLAS, or NULL. */
void assert_layer_updated(const char *what, const Layer *l, UpdateRule rule, double split,
                          const double *library);
void assert_layer_untouched(const Layer *l);
/* Checks that the gradient's arrays are the reference's. */
void assert_layer_gradient(const char *what, const Layer *l, const LayerUpdate *stored,
                           double limit);
/* The launcher's argument: to update the layer, or to store its gradient in new arrays, while what
   would be updated by it is missing. */
LayerUpdate update_of(const Layer *l);
LayerUpdate gradient_of(const Layer *l);

/* Calls `check`, then finish(), in short and long batches, with the shapes of as many layers as one
   launch may update, no two alike. */
void for_many_layers(void (*check)(const Batch *batch, const Shape shapes[MAX_UPDATES]));
