// Rules between the keys of a recipe's model and optimizer. Each section names the file that checks it. layout_check.h
// and schedule_check.h have the rules of layouts and schedules.
#pragma once

#include "framework/config/problems.h"
#include "layers/base/model_config.h"
#include "tools/train/recipe/recipe.h"

namespace hexad::train {

// --- names of registered parts: layers, routers, optimizers and data sources (names_check.cpp)

/// Adds a problem for each name that is not registered; the problem lists the registered names. Also adds a problem for
/// each option that its part does not read or support. Uses only the declarations of the parts; constructs no part.
void check_names(const Recipe& r, const Extensions& extensions, config::Problems& problems);

// --- section `model` (model_check.cpp)

/// Adds a problem for each key of `model` that contradicts another key. A rule is checked only if all keys that it
/// reads have legal values. Names of registered parts are checked by check_names().
void check_model(const layers::ModelConfig& model, config::Problems& problems);

// --- attention and delta nets of a model (attention_check.cpp)

/// Adds a problem for each key of attention, windows, delta nets and rotary positions that contradicts another key of
/// `model`. A rule is checked only if all keys that it reads have legal values.
void check_attention(const layers::ModelConfig& model, config::Problems& problems);

// --- rotary positions: the share of a head that they rotate, and the scaling of frequencies (rotary_check.cpp)

/// Adds a problem if model.rotary_share does not select a whole number of pairs of dimensions. The share may be rounded
/// to a few digits, such as 0.666667.
void check_rotary_share(const layers::ModelConfig& m, config::Problems& problems);

/// Adds a problem for each key of model.rotary_scaling and model.yarn that contradicts another key. Does nothing if a
/// key that the rules read has an illegal value.
void check_rotary_scaling(const layers::ModelConfig& m, config::Problems& problems);

// --- models in which experts choose tokens (expert_choice_check.cpp)

/// Adds a problem for each key of `model` that contradicts model.moe.router: expert_choice. Does nothing for other
/// routers.
void check_expert_choice(const layers::ModelConfig& model, config::Problems& problems);

// --- optim.freeze and optim.muon_except, compared with the names of the parameters (freeze_check.cpp)

/// Adds a problem for each pattern of optim.freeze and optim.muon_except that matches no parameter, with the nearest
/// names. Also adds a problem if all parameters are frozen. Does nothing if the recipe already has problems, because
/// its model may be illegal.
void check_freeze(const Recipe& recipe, const Extensions& extensions, config::Problems& problems);

}  // namespace hexad::train
