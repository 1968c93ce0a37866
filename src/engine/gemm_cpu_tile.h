/* The kernels of gemm_cpu.h for one instruction set. gemm_cpu.c includes this file once for each
   set, after it defines

     NAME(x)   the name of function x in this set
     TARGET    the attribute that lets the compiler use the set
     LANES     floats in a vector register
     VECTORS   vectors in a tile's row. The registers must hold GEMM_PANEL x VECTORS sums,
               VECTORS vectors of b and one value of a */

typedef float NAME(Vector) __attribute__((vector_size(LANES * sizeof(float))));
#define Vector NAME(Vector)
#define INLINE static inline __attribute__((always_inline)) TARGET

/* Computes c(m, n) = start (or 0) + the sum over j of a(m, j) b(index[j], n). */
INLINE void NAME(accumulate)(const GemmTerms *t, const int vectors, const float *start,
                             Vector c[GEMM_PANEL][VECTORS]) {
  const float *const a = t->a, *const b = t->b;
  const size_t a_row = t->a_row, a_term = t->a_term, b_row = t->b_row;
  const uint32_t *const index = t->index;
  const size_t terms = t->terms;
  UNROLL for (size_t m = 0; m < GEMM_PANEL; m++) {
    for (int v = 0; v < vectors; v++) c[m][v] = start ? ((const Vector *)start)[v] : (Vector){0};
  }
  for (size_t j = 0; j < terms; j++) {
    const Vector *from = (const Vector *)(b + index[j] * b_row);
    Vector row[VECTORS];
    for (int v = 0; v < vectors; v++) row[v] = from[v];
    for (size_t m = 0; m < GEMM_PANEL; m++) {
      const float factor = a[m * a_row + j * a_term];
      for (int v = 0; v < vectors; v++) c[m][v] += factor * row[v];
    }
  }
}

INLINE void NAME(forward_tile)(const GemmTerms *terms, const int vectors, const float *bias,
                               bool activates, float *y, size_t y_row) {
  Vector c[GEMM_PANEL][VECTORS];
  NAME(accumulate)(terms, vectors, bias, c);
  UNROLL for (size_t m = 0; m < GEMM_PANEL; m++) {
    float *row = y + m * y_row;
    for (int v = 0; v < vectors; v++) ((Vector *)row)[v] = c[m][v];
    if (activates) {
      IN_VECTORS for (int n = 0; n < vectors * LANES; n++) {
        row[n] = activate(row[n]);
      }
    }
  }
}

INLINE void NAME(backward_tile)(const GemmTerms *terms, const int vectors, const float *y,
                                float scale, float *dx, size_t row) {
  Vector c[GEMM_PANEL][VECTORS];
  NAME(accumulate)(terms, vectors, NULL, c);
  UNROLL for (size_t m = 0; m < GEMM_PANEL; m++) {
    const float *output = y + m * row;
    float *gradient = dx + m * row;
    for (int v = 0; v < vectors; v++) ((Vector *)gradient)[v] = c[m][v];
    IN_VECTORS for (int n = 0; n < vectors * LANES; n++) {
      gradient[n] = times_slope(activation_slope(output[n], scale), gradient[n]);
    }
  }
}

INLINE void NAME(update_tile)(const GemmTerms *terms, const int vectors, const OptimizerRule *rule,
                              float rate, float *w, float *v, size_t row, float *copy,
                              size_t copy_row) {
  /* Prefetches weights and momentum from memory while the sums are computed. */
  for (size_t m = 0; m < GEMM_PANEL; m++) {
    for (int n = 0; n < vectors * LANES; n += GEMM_ALIGN) {
      __builtin_prefetch(w + m * row + n, 1);
      __builtin_prefetch(v + m * row + n, 1);
    }
  }
  Vector c[GEMM_PANEL][VECTORS];
  NAME(accumulate)(terms, vectors, NULL, c);
  UNROLL for (size_t m = 0; m < GEMM_PANEL; m++) {
    Vector *weight = (Vector *)(w + m * row), *momentum = (Vector *)(v + m * row);
    for (int i = 0; i < vectors; i++) {
      momentum[i] = rule->momentum * momentum[i] + c[m][i] + rule->weight_decay * weight[i];
      weight[i] -= rate * momentum[i];
    }
  }
  if (!copy) return;
  for (size_t n = 0; n < (size_t)vectors * LANES; n++)
    *(Four *)(copy + n * copy_row) = (Four){w[n], w[row + n], w[2 * row + n], w[3 * row + n]};
}

/* ---- one function for all widths ------------------------------------------------------- */

#if LANES == 16
#define EACH_WIDTH(tile, ...)                                                                      \
  switch (columns / LANES) {                                                                       \
  case 1:                                                                                          \
    NAME(tile)(terms, 1, __VA_ARGS__);                                                             \
    break;                                                                                         \
  case 2:                                                                                          \
    NAME(tile)(terms, 2, __VA_ARGS__);                                                             \
    break;                                                                                         \
  case 3:                                                                                          \
    NAME(tile)(terms, 3, __VA_ARGS__);                                                             \
    break;                                                                                         \
  default:                                                                                         \
    NAME(tile)(terms, 4, __VA_ARGS__);                                                             \
  }
#else /* all tiles have the same width */
_Static_assert(GEMM_ALIGN == LANES * VECTORS, "every tile is a whole one");
#define EACH_WIDTH(tile, ...) (void)columns, NAME(tile)(terms, VECTORS, __VA_ARGS__)
#endif

TARGET static void NAME(forward)(const GemmTerms *terms, size_t columns, const float *bias,
                                 bool activates, float *y, size_t y_row) {
  EACH_WIDTH(forward_tile, bias, activates, y, y_row);
}

TARGET static void NAME(backward)(const GemmTerms *terms, size_t columns, const float *y,
                                  float scale, float *dx, size_t row) {
  EACH_WIDTH(backward_tile, y, scale, dx, row);
}

TARGET static void NAME(update)(const GemmTerms *terms, size_t columns, const OptimizerRule *rule,
                                float rate, float *w, float *v, size_t row, float *copy,
                                size_t copy_row) {
  EACH_WIDTH(update_tile, rule, rate, w, v, row, copy, copy_row);
}

#undef EACH_WIDTH
#undef INLINE
#undef Vector
#undef NAME
#undef TARGET
#undef LANES
#undef VECTORS
