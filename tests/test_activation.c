/* Trains by another activation than ReLU, tanh.h. The Makefile links this test with the CPU
   engine's and the float64 reference's functions, compiled for that activation. */
#include "predict/predict.h"
#include "support/engine_tests.h"

/* The engine must agree with float64, which keeps the outputs without dropout. The largest measured
   error is 6e-7. If either side takes the slope at the output after dropout, the error is over
   0.3. */
ENGINE_TEST(the_slope_is_that_before_dropout) {
  const Case c = {"tanh", 50, {40, 20}, 2, 5, 16, 90, USUAL(30), 3};
  const Data data = make_data(&c);
  foreach (share, VALUES(float, 0, 0.25f, 0.5f)) {
    EngineConfig config = config_of(&c, FUSION_AUTO, c.rows, whole_batches(&c, c.rows));
    config.training.dropout.count = 2;
    config.training.dropout.share[0] = *share;
    config.training.dropout.share[1] = *share / 2;
    const Reference r = run_reference(&c, config, &data);
    Engine *engine = open_config(config, CPU);
    send_all(engine, &data, c.rows);
    for_steps(&c, train_whole, engine);
    const Outcome o = close_with_outcome(engine);
    const double off = way_error(o.parameters, r.parameters, r.start, o.floats);
    if (!(off <= 1e-5)) fail_msg("dropout %g: error %.3g", (double)*share, off);
  }
}

/* The page has a ReLU of its own. */
ENGINE_TEST(the_page_is_refused) {
  EngineConfig config = {0};
  assert_false(digit_page_write(&config, NULL, NULL, "page.html", &error));
  assert_string_equal(error.text, "--html page.html: the page can show networks with ReLU only");
}
