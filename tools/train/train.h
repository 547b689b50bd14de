// The library of training for a program of one's own (docs/embedding.md): target hexad::train.
#pragma once

#include "framework/data/training_data.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"
#include "parallel/comm/world.h"
#include "tools/train/checkpointing.h"
#include "tools/train/evaluation.h"
#include "tools/train/generation.h"
#include "tools/train/job.h"
#include "tools/train/model_instance.h"
#include "tools/train/saved_run.h"
#include "tools/train/train_step.h"
#include "tools/train/trainer.h"
