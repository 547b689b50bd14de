// Prediction of all micro-batches of a step, without extrapolation.
#pragma once

#include "tools/plan/step_forecast.h"

namespace hexad::plan {

/// Returns `forecast` if all micro-batches of the step were simulated. Otherwise, records and simulates all
/// micro-batches on the same ranks, which gives the timeline of the whole step. The other arguments must equal the
/// arguments of the forecast_step() call that returned `forecast`. Takes milliseconds for each layer and micro-batch.
StepForecast with_all_micro_batches(StepForecast forecast, const train::Recipe& recipe,
                                    const train::Extensions& extensions, const mesh::Layout& layout,
                                    const StepPrices& prices, RoutingLoad load);

}  // namespace hexad::plan
