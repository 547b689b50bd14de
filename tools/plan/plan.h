// Umbrella header of the library of estimates, prices and choices (target hexad::plan), for other programs.
#pragma once

#include "tools/plan/memory_estimate.h"
#include "tools/plan/prices.h"
#include "tools/plan/run_schedule.h"
#include "tools/plan/schedule_prices.h"
#include "tools/plan/traffic_estimate.h"
