// The library of estimates, prices and choices for a program of one's own: target hexad::plan.
#pragma once

#include "tools/plan/memory_estimate.h"
#include "tools/plan/run_schedule.h"
#include "tools/plan/schedule_prices.h"
#include "tools/plan/traffic_estimate.h"
