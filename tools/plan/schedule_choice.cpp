#include "tools/plan/schedule_choice.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/train/recipe/schedule_check.h"

namespace hexad::plan {

using namespace train;

namespace {

using moe::MoeSchedule;
using plan::GranularitySearch;
using Json = nlohmann::json;

// Maximum number of finalists. More would not be worth their trials, because the simulator predicts the rest well
// enough.
constexpr int64_t most_finalists = 4;
constexpr int64_t most_rounds = 5;
// Maximum number of chunk counts that Algorithm 1 tries between 2 and 16.
constexpr int64_t most_asked = 9;
constexpr int64_t most_repeats = 3;

Json json_of(const GranularitySearch::State& s) {
  std::map<int64_t, std::pair<int64_t, int64_t>> ranges;
  for (const auto& [n, range] : s.ranges) ranges[n] = {range.smallest, range.largest};
  return {{"ranges", ranges}, {"chosen", s.chosen}, {"seconds", s.seconds}};
}

GranularitySearch::State search_state_of(const Json& json) {
  GranularitySearch::State s;
  for (const auto& [n, range] : json.at("ranges").get<std::map<int64_t, std::pair<int64_t, int64_t>>>())
    s.ranges[n] = {range.first, range.second};
  s.chosen = json.at("chosen").get<decltype(s.chosen)>();
  s.seconds = json.at("seconds").get<decltype(s.seconds)>();
  return s;
}

MoeSchedule with_chunks(MoeSchedule s, int64_t chunks) {
  s.chunks = chunks;
  return s;
}

}  // namespace

ScheduleChoice::ScheduleChoice(const Recipe& recipe, ModelInstance& instance, Predictor predictor,
                               const comm::ProcessGroup& world)
    : recipe_(recipe),
      instance_(instance),
      predictor_(std::move(predictor)),
      world_(world),
      needs_(recipe, instance.extensions, world.size()),
      memory_(needs_.within(legal_schedules(recipe, instance.extensions))),
      candidates_(predicted_schedules(recipe, instance.extensions, predictor_, world, memory_.schedules)),
      turns_(static_cast<int64_t>(recipe.schedule.moe.trial_share * static_cast<double>(recipe.train.steps))) {
  std::ranges::stable_sort(candidates_, {}, &ScheduleCandidate::predicted);
  set(0);
  pick_finalists();
  if (!finalists_.empty()) return;
  const MoeSchedule& best = candidates_.front().schedule;
  const bool alone = std::ranges::all_of(
      candidates_, [&](const ScheduleCandidate& c) { return with_chunks(c.schedule, 0) == with_chunks(best, 0); });
  if (alone && chunks_open(recipe_, best))
    begin_search(best, {});
  else
    made_ = true;
}

// Picks the fastest schedule of each family. Schedules of a family differ only in their chunks. Picks no schedule if
// there are no trials, or if there is only one schedule.
void ScheduleChoice::pick_finalists() {
  const auto open = [&](size_t i) { return chunks_open(recipe_, candidates_[i].schedule); };
  const auto pick = [&](int64_t trials) {
    finalists_.clear();
    for (size_t i = 0; i < candidates_.size() && std::ssize(finalists_) < std::min(most_finalists, trials / 2); ++i)
      if (std::ranges::none_of(finalists_, [&](size_t f) {
            return open(i) && with_chunks(candidates_[f].schedule, 0) == with_chunks(candidates_[i].schedule, 0);
          }))
        finalists_.push_back(i);
  };
  pick(turns_);
  int64_t trials = turns_;
  // Reserves half of the trials for Algorithm 1, if enough trials remain to compare two schedules.
  if (std::ranges::any_of(finalists_, open)) pick(trials = std::max(turns_ / 2, std::min<int64_t>(turns_, 4)));
  if (finalists_.size() < 2) return finalists_.clear();
  // The program's default schedule is always a finalist, for any prediction. Therefore, the chosen schedule is not
  // slower than the default.
  const auto plain = std::ranges::find(candidates_, recipe_.schedule.moe.settled(), &ScheduleCandidate::schedule);
  const size_t at = plain - candidates_.begin();
  if (plain != candidates_.end() && std::ranges::find(finalists_, at) == finalists_.end()) finalists_.back() = at;
  const auto finalists = std::ssize(finalists_);
  family_turns_ = finalists * std::min(most_rounds, trials / finalists);
}

ChunksRange ScheduleChoice::range_of(const MoeSchedule& s) {
  const MoeSchedule family = with_chunks(s, 0);
  const auto known = std::ranges::find(ranges_, family, &std::pair<MoeSchedule, ChunksRange>::first);
  if (known != ranges_.end()) return known->second;
  return ranges_.emplace_back(family, chunks_range(recipe_, instance_.extensions, needs_, s)).second;
}

std::optional<MoeSchedule> ScheduleChoice::allowed(const std::string& text) {
  for (const MoeSchedule& s : memory_.schedules) {
    if (moe::to_string(s) == text) return s;
    if (!chunks_open(recipe_, s)) continue;
    const ChunksRange range = range_of(s);
    for (int64_t n = range.fewest; n <= range.most; ++n)
      if (const MoeSchedule other = with_chunks(s, n); moe::to_string(other) == text) return other;
  }
  return {};
}

std::vector<std::string> ScheduleChoice::finalist_names() const {
  std::vector<std::string> names;
  for (size_t f : finalists_) names.push_back(moe::to_string(candidates_[f].schedule));
  return names;
}

std::string ScheduleChoice::state() const {
  Json json{{"tokens", rows_of_layer(recipe_)}, {"ranks", world_.size()}, {"trials", turn_}};
  json["finalists"] = finalist_names();
  Json& measured = json["measured"] = Json::object();
  for (const ScheduleCandidate& c : candidates_)
    if (!c.measured.empty()) measured[moe::to_string(c.schedule)] = c.measured;
  if (search_)
    json["search"] = {{"start", moe::to_string(search_->start)},
                      {"fewest", search_->range.fewest},
                      {"most", search_->range.most},
                      {"repeats", search_->repeats},
                      {"known", json_of(search_->chunks.state())}};
  return json.dump();
}

bool ScheduleChoice::resume(const std::string& chosen, const std::string& state) {
  const Json before = state.empty() ? Json::object() : Json::parse(state);
  const bool same_tokens = before.value("tokens", rows_of_layer(recipe_)) == rows_of_layer(recipe_);
  const bool same_times = same_tokens && before.value("ranks", world_.size()) == world_.size();
  const auto schedule = chosen.empty() ? std::nullopt : allowed(chosen);
  std::optional<Search> search = search_in(before);
  if (chosen.empty()) {
    const bool continues = !made_ && same_times && before.value("finalists", Json()) == Json(finalist_names()) &&
                           search.has_value() == before.contains("search") && (search || !finalists_.empty());
    if (!continues) return false;
  } else if (!schedule) {
    return false;
  }
  turn_ = before.value("trials", int64_t{0});
  if (same_times && before.contains("measured"))
    for (const auto& [text, seconds] : before.at("measured").items())
      if (const auto s = allowed(text)) candidates_[index_of(*s)].measured = seconds.get<std::vector<double>>();
  search_ = std::move(search);
  if (schedule) set(index_of(*schedule));
  made_ = schedule && (same_tokens || !search_);
  if (made_) return true;
  if (search_)
    go_on_searching();
  else if (!tries_families())
    end_families();
  return true;
}

// Returns the search in `before`; none if it was made with another number of ranks or other bounds.
std::optional<ScheduleChoice::Search> ScheduleChoice::search_in(const Json& before) {
  if (!before.contains("search") || before.at("ranks") != world_.size()) return {};
  const Json& search = before.at("search");
  const auto start = allowed(search.at("start").get<std::string>());
  const ChunksRange range{search.at("fewest").get<int64_t>(), search.at("most").get<int64_t>()};
  if (!start || !chunks_open(recipe_, *start) || range_of(*start) != range) return {};
  return Search{*start, range, search.at("repeats").get<int64_t>(),
                GranularitySearch(range.fewest, range.most, search_state_of(search.at("known")))};
}

void ScheduleChoice::begin_search(const MoeSchedule& start, GranularitySearch::State known) {
  const int64_t trials = turns_ - turn_;
  const ChunksRange range = range_of(start);
  // `start.chunks` may be outside the range, because an order need not be legal for all numbers of chunks.
  const bool inside = range.fewest <= start.chunks && start.chunks <= range.most;
  if (!inside || range.fewest == range.most || trials < 2) {
    made_ = true;
    return;
  }
  const int64_t repeats = std::clamp<int64_t>(trials / most_asked, 1, most_repeats);
  search_.emplace(Search{start, range, repeats, GranularitySearch(range.fewest, range.most, std::move(known))});
  go_on_searching();
}

// Sets the next schedule to try, or the result of the search.
void ScheduleChoice::go_on_searching() {
  const int64_t tokens = rows_of_layer(recipe_);
  GranularitySearch& chunks = search_->chunks;
  const GranularitySearch::State& known = chunks.state();
  plan::Trial next{search_->start.chunks, false};
  if (turn_ >= turns_ && !known.chosen.contains(tokens))
    next = {chunks.conclude(tokens, current().schedule.chunks), true};
  else if (!known.ranges.empty() || known.seconds.contains({tokens, next.n}))  // the predicted number comes first
    next = chunks.propose(tokens);
  set(index_of(with_chunks(search_->start, next.n)));
  made_ = next.settled;
}

// Alternates the finalists, because a slow minute of the machine should affect all of them.
void ScheduleChoice::begin_trial() {
  if (tries_families()) set(finalists_[static_cast<size_t>(turn_) % finalists_.size()]);
}

void ScheduleChoice::end_trial(const std::vector<PassRecorder::Recording>& passes) {
  ScheduleCandidate& tried = candidates_[current_];
  tried.measured.push_back(
      world_.all_reduce_value(plan::measured_seconds(passes), comm::Reduce::max, instance_.device()));
  const bool of_families = tries_families();
  ++turn_;
  if (of_families) {
    if (!tries_families()) end_families();
    return;
  }
  if (turn_ < turns_ && std::ssize(tried.measured) < search_->repeats) return;
  search_->chunks.record(rows_of_layer(recipe_), tried.schedule.chunks, *std::ranges::min_element(tried.measured));
  go_on_searching();
}

void ScheduleChoice::end_families() {
  set(*std::ranges::min_element(finalists_, {}, [&](size_t f) { return candidates_[f].measured_seconds(); }));
  const MoeSchedule& fastest = current().schedule;
  if (!chunks_open(recipe_, fastest)) {
    made_ = true;
    return;
  }
  GranularitySearch::State known;
  for (size_t f : finalists_)
    if (const ScheduleCandidate& c = candidates_[f]; with_chunks(c.schedule, 0) == with_chunks(fastest, 0))
      known.seconds[{rows_of_layer(recipe_), c.schedule.chunks}] = *std::ranges::min_element(c.measured);
  begin_search(fastest, std::move(known));
}

size_t ScheduleChoice::index_of(const MoeSchedule& schedule) {
  const auto known = std::ranges::find(candidates_, schedule, &ScheduleCandidate::schedule);
  if (known != candidates_.end()) return static_cast<size_t>(known - candidates_.begin());
  candidates_.push_back(predicted_schedule(recipe_, instance_.extensions, predictor_, world_, schedule));
  return candidates_.size() - 1;
}

void ScheduleChoice::set(size_t candidate) {
  current_ = candidate;
  instance_.reschedule(candidates_[candidate].schedule);
}

std::string ScheduleChoice::to_string(const ScheduleCandidate& c) {
  std::string out = fmt::format("{}: predicted {:.2f} ms", moe::to_string(c.schedule), 1e3 * c.predicted);
  if (const double seconds = c.measured_seconds(); seconds > 0)
    out += fmt::format(", measured {:.2f} ms ({:+.1f}%)", 1e3 * seconds, 100 * (c.predicted / seconds - 1));
  return out;
}

}  // namespace hexad::plan
