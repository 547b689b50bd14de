// Header of the library hexad::train, for training in a user's own program (docs/embedding.md).
#pragma once

#include "framework/data/training_data.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpoint/checkpointing.h"
#include "tools/train/checkpoint/saved_run.h"
#include "tools/train/model/evaluation.h"
#include "tools/train/model/generation.h"
#include "tools/train/model/model_instance.h"
#include "tools/train/model/train_step.h"
#include "tools/train/recipe/job.h"
#include "tools/train/trainer.h"
