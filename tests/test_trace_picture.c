/* The timeline of a trace: where its marks are, read from the list of what it draws. */
#include "bench/trace.h"
#include "plot/page.h"
#include "support/marks.h"

enum { LAUNCH = 0x8250df, KERNEL = 0x0969da, START = 1000000 /* ns: of the step */ };

static Trace trace;

/* A slice of a level, in us from the start of the step that is shown. */
static void add(int level, int track, int step, int start, int end, const char *name) {
  trace_add_slice(&trace, level, track, step, START + 1000 * start, START + 1000 * end, name);
}

/* Steps of 10 and 20 us, on an axis of 20, and one of 100, of which launches lie at the start, in
   the middle and at the end. */
TEST(slices_lie_where_they_belong) {
  static const int lengths[] = {10, 20, 100}, launches[][2] = {{-5, 1}, {50, 52}, {99, 200}};
  for (int level = 0; level < 3; level++) {
    const int length = lengths[level];
    trace_add_level(&trace, "level", 64, 1, 2);
    add(level, TRACE_GPU, TRACE_SHOWN, 0, length < 100 ? length : 1, "gemm 1");
    add(level, TRACE_GPU, TRACE_SHOWN + 1, length, length + 1, "gemm 1");
    add(2, TRACE_HOST, TRACE_SHOWN, launches[level][0], launches[level][1], "cudaLaunchKernel");
  }
  add(2, TRACE_GPU, TRACE_SHOWN, 99, 100, "far_too_long c");
  OK(trace_draw(&trace, "timeline.png", &error));
  assert_int_equal(drawn.width, CHART_WIDTH);
  const double left = middle_of("0"), right = middle_of("20"), part = (right - left) / 20;
  const Mark *slice = mark_of(IS_RECTANGLE, KERNEL, 1); /* after the key's */
  assert_at(slice->x, left);
  assert_at(slice->x1 + 1, (left + right) / 2);
  assert_true(slice->y > 172 && slice->y1 < 204); /* below the host's lane */
  assert_at(middle_of("gemm 1"), (slice->x + slice->x1) / 2);
  assert_int_equal(count_marks(IS_RECTANGLE, LAUNCH), 1 + 2); /* the middle is left out */
  const Mark *first = mark_of(IS_RECTANGLE, LAUNCH, 1), *last = mark_of(IS_RECTANGLE, LAUNCH, 2);
  assert_true(first->y > 312 && first->y1 < 344);
  assert_at(first->x, left);
  assert_at(first->x1 + 1, left + part);
  assert_at(last->x1 + 1, right);
  assert_at(last->x, right - part);
  assert_says("break: 86 us are left out,", "4.3 times", "launch", "c", "100 us", "10 us",
              "idle: 64 steps are queued", "no launch", "3 launches a step", "a kernel runs");
  assert_true(!text_mark("far") && !text_mark("gemm 2"));
  trace_close(&trace);
}
