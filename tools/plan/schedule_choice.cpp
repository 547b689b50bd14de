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

// Maximum number of finalists. Trials of more finalists would not be worthwhile, because the simulator predicts the
// other schedules well enough.
constexpr int64_t max_finalists = 4;
constexpr int64_t max_rounds = 5;
// Maximum number of chunk counts that Algorithm 1 measures among the numbers from 2 to 16.
constexpr int64_t max_measured_steps = 9;
// Fewest and most measured steps of each schedule if Algorithm 1 also needs trials. A single measured step would not be
// reliable.
constexpr int64_t min_repeats = 2, max_repeats = 3;
// Trial steps of a finalist in each round: a first step after the change of schedule, which is not measured, and a
// measured step.
constexpr int64_t steps_of_round = 2;

Json json_of(const GranularitySearch::State& s) {
  std::map<int64_t, std::pair<int64_t, int64_t>> ranges;
  for (const auto& [n, range] : s.ranges) ranges[n] = {range.smallest, range.largest};
  return {{"ranges", ranges}, {"chosen", s.chosen}, {"samples", s.samples}};
}

GranularitySearch::State search_state_of(const Json& json) {
  GranularitySearch::State s;
  for (const auto& [n, range] : json.at("ranges").get<std::map<int64_t, std::pair<int64_t, int64_t>>>())
    s.ranges[n] = {range.first, range.second};
  s.chosen = json.at("chosen").get<decltype(s.chosen)>();
  // Earlier versions saved minima over different numbers of measurements, which cannot be compared.
  if (json.contains("samples")) s.samples = json.at("samples").get<decltype(s.samples)>();
  return s;
}

MoeSchedule with_chunks(MoeSchedule s, int64_t chunks) {
  s.chunks = chunks;
  return s;
}
bool is_family(const MoeSchedule& a, const MoeSchedule& b) { return with_chunks(a, 0) == with_chunks(b, 0); }
// True if the schedules differ only in their chunks, memory_reuse and memory_limit.
bool is_sibling(MoeSchedule a, const MoeSchedule& b) {
  a.memory_reuse = b.memory_reuse, a.memory_limit = b.memory_limit;
  return is_family(a, b);
}

/// Index of a candidate, and a summary of its measured times.
struct Timed {
  size_t candidate;
  SampleSummary seconds;
};
// Returns the first candidate whose time is indistinct from the smallest median.
size_t fastest(const std::vector<Timed>& all) {
  const Timed least = *std::ranges::min_element(all, {}, [](const Timed& t) { return t.seconds.median; });
  return std::ranges::find_if(all, [&](const Timed& t) { return indistinct(t.seconds, least.seconds); })->candidate;
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
  const MoeSchedule best = candidates_.front().schedule;
  // All trials belong to Algorithm 1, as in the paper, if only chunks and memory_reuse are open. All trials also belong
  // to Algorithm 1 if other open choices make no difference: each candidate does the work of a sibling of the fastest
  // candidate.
  const auto is_searched = [&](const ScheduleCandidate& c) {
    return std::ranges::any_of(candidates_, [&](const ScheduleCandidate& other) {
      return is_sibling(other.schedule, best) && (other.schedule == c.schedule || other.work == c.work);
    });
  };
  if (chunks_open(recipe_, best) && std::ranges::all_of(candidates_, is_searched)) {
    begin_searches(best, 0);
  } else {
    pick_finalists();
    made_ = finalists_.empty();
  }
}

// Picks the predicted fastest schedules of up to four families as finalists. Schedules of a family differ only in their
// chunks. Each schedule is a family if the number of chunks is fixed. Except for the default schedule, no finalist does
// the same work as a candidate of a faster finalist's family. The reason is that Algorithm 1 tries other numbers of
// chunks of the chosen family. Picks none if there are fewer than eight trial steps, or fewer than two families.
void ScheduleChoice::pick_finalists() {
  const auto open = [&](size_t i) { return chunks_open(recipe_, candidates_[i].schedule); };
  const auto equal_work = [&](size_t a, size_t b) { return candidates_[a].work == candidates_[b].work; };
  const auto same_family = [&](size_t a, size_t b) {
    return is_family(candidates_[a].schedule, candidates_[b].schedule);
  };
  // True if candidate i does the same work as finalist f. All candidates of the family of f count like f if the number
  // of chunks of f is open.
  const auto represents = [&](size_t f, size_t i) {
    if (equal_work(f, i)) return true;
    if (!open(f)) return false;
    for (size_t other = 0; other < candidates_.size(); ++other)
      if (same_family(f, other) && (other == i || equal_work(other, i))) return true;
    return false;
  };
  constexpr int64_t least_steps = min_repeats * steps_of_round;
  const auto pick = [&](int64_t trials) {
    finalists_.clear();
    for (size_t i = 0; i < candidates_.size() && std::ssize(finalists_) < std::min(max_finalists, trials / least_steps);
         ++i)
      if (std::ranges::none_of(finalists_, [&](size_t f) { return represents(f, i); })) finalists_.push_back(i);
  };
  pick(turns_);
  int64_t trials = turns_;
  // Reserves at most half of the trial steps for Algorithm 1. Finalists keep at least eight steps, or all steps if
  // there are fewer than eight, because two finalists need eight steps.
  const bool search_follows = std::ranges::any_of(finalists_, open);
  if (search_follows) pick(trials = std::max(turns_ / 2, std::min(turns_, 2 * least_steps)));
  if (finalists_.size() < 2) return finalists_.clear();
  // The schedule with the defaults of all open choices becomes a finalist, regardless of its prediction, if it is a
  // candidate. Therefore, no schedule is chosen that is distinctly slower in the trials than the default schedule. The
  // default schedule replaces the finalist of its own family, so that every other family keeps its finalist. If there
  // is no such finalist, it replaces a finalist that does equal work, or else the last finalist.
  const auto plain = std::ranges::find(candidates_, recipe_.schedule.moe.settled(), &ScheduleCandidate::schedule);
  const size_t at = plain - candidates_.begin();
  if (plain != candidates_.end() && std::ranges::find(finalists_, at) == finalists_.end()) {
    auto like = std::ranges::find_if(finalists_, [&](size_t f) { return open(f) && same_family(f, at); });
    if (like == finalists_.end()) like = std::ranges::find_if(finalists_, [&](size_t f) { return equal_work(f, at); });
    (like == finalists_.end() ? finalists_.back() : *like) = at;
  }
  const int64_t round = steps_of_round * std::ssize(finalists_);
  family_turns_ = round * std::min(search_follows ? max_repeats : max_rounds, trials / round);
}

const std::vector<int64_t>& ScheduleChoice::numbers_of(const MoeSchedule& s) {
  const MoeSchedule family = with_chunks(s, 0);
  for (const auto& [known, numbers] : numbers_)
    if (known == family) return numbers;
  return numbers_.emplace_back(family, chunk_numbers(recipe_, instance_.extensions, needs_, s)).second;
}

std::optional<MoeSchedule> ScheduleChoice::allowed(const std::string& text) {
  for (const MoeSchedule& s : memory_.schedules) {
    if (moe::to_string(s) == text) return s;
    if (!chunks_open(recipe_, s)) continue;
    for (const int64_t n : numbers_of(s))
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
  // A run that continues the trials runs this schedule in its first step, which is not a trial.
  json["warm"] = warm_ && !made_ ? moe::to_string(current().schedule) : std::string();
  for (const Switch& s : switches_) json["switches"].push_back({{"step", s.step}, {"from", s.from}, {"to", s.to}});
  if (searches_.empty()) return json.dump();
  Json& searches = json["searches"] = Json::array();
  for (const Search& s : searches_)
    searches.push_back({{"start", moe::to_string(s.start)},
                        {"numbers", s.numbers},
                        {"repeats", s.repeats},
                        {"known", json_of(s.chunks.state())}});
  json["searched"] = searched_, json["search_end"] = search_end_;
  return json.dump();
}

bool ScheduleChoice::resume(const std::string& chosen, const std::string& state) {
  const Json before = state.empty() ? Json::object() : Json::parse(state);
  const bool same_tokens = before.value("tokens", rows_of_layer(recipe_)) == rows_of_layer(recipe_);
  const bool same_times = same_tokens && before.value("ranks", world_.size()) == world_.size();
  const auto schedule = chosen.empty() ? std::nullopt : allowed(chosen);
  std::vector<Search> searches = searches_in(before);
  if (chosen.empty()) {
    // Earlier versions counted the first step after each change of schedule, and did not save "warm".
    const bool continues = !made_ && same_times && before.contains("warm") &&
                           before.value("finalists", Json()) == Json(finalist_names()) &&
                           searches.empty() != before.contains("searches") &&
                           (!searches.empty() || !finalists_.empty());
    if (!continues) return false;
  } else if (!schedule) {
    return false;
  }
  turn_ = before.value("trials", int64_t{0});
  if (same_times && before.contains("measured"))
    for (const auto& [text, seconds] : before.at("measured").items())
      if (const auto s = allowed(text)) candidates_[index_of(*s)].measured = seconds.get<std::vector<double>>();
  for (const Json& s : before.value("switches", Json::array())) {
    const auto name = [&](const char* key) { return s.at(key).get<std::string>(); };
    switches_.push_back({s.at("step").get<int64_t>(), name("from"), name("to")});
    for (const std::string& text : {name("from"), name("to")})  // later re-decisions compare both
      if (const auto known = allowed(text)) index_of(*known);
  }
  searches_ = std::move(searches);
  searched_ = 0, search_end_ = 0, preferred_ = 0;
  if (schedule) set(index_of(*schedule));
  for (size_t i = 0; schedule && i < searches_.size(); ++i)
    if (is_family(searches_[i].start, *schedule)) preferred_ = i;
  made_ = schedule && (same_tokens || searches_.empty());
  if (made_) return true;
  if (const std::string warm = before.value("warm", std::string()); !warm.empty())
    if (const auto s = allowed(warm)) set(index_of(*s)), warm_ = true;
  if (same_tokens && !searches_.empty())
    searched_ = before.at("searched").get<size_t>(), search_end_ = before.at("search_end").get<int64_t>();
  if (!searches_.empty())
    continue_search();
  else if (!tries_families())
    end_families();
  return true;
}

// Returns the searches in `before`. Returns none if the searches used another number of ranks or other numbers of
// chunks. Also returns none if the recipe no longer allows the schedule of a search.
std::vector<ScheduleChoice::Search> ScheduleChoice::searches_in(const Json& before) {
  std::vector<Search> all;
  if (!before.contains("searches") || before.at("ranks") != world_.size()) return all;
  for (const Json& search : before.at("searches")) {
    const auto start = allowed(search.at("start").get<std::string>());
    const auto numbers = search.at("numbers").get<std::vector<int64_t>>();
    if (!start || !chunks_open(recipe_, *start) || numbers_of(*start) != numbers) return {};
    const int64_t repeats = std::max(search.at("repeats").get<int64_t>(), min_repeats);  // earlier versions saved 1
    Search again{*start, numbers, repeats, GranularitySearch(numbers, repeats, search_state_of(search.at("known")))};
    all.push_back(std::move(again));
  }
  return all;
}

// Begins Algorithm 1 for `like`. Also begins it for each other strategy of memory_reuse, with the fastest predicted
// sibling. Begins fewer searches if there are too few trial steps to measure two numbers in each search. Begins no
// search, and makes the choice, if `like` has no alternative or the trial steps do not suffice for one search.
// `repeats` is the number of measured steps of each schedule so far; 0 if there were none.
void ScheduleChoice::begin_searches(const MoeSchedule& like, int64_t repeats) {
  const int64_t trials = turns_ - turn_;
  std::vector<MoeSchedule> starts{like};
  for (const ScheduleCandidate& c : candidates_)
    if (is_sibling(c.schedule, like) &&
        std::ranges::find(starts, c.schedule.memory_reuse, &MoeSchedule::memory_reuse) == starts.end())
      starts.push_back(c.schedule);
  // Removes schedules whose predicted number of chunks cannot be tried, for example because their order is illegal for
  // this number.
  std::erase_if(starts, [&](const MoeSchedule& s) { return !std::ranges::binary_search(numbers_of(s), s.chunks); });
  const bool chooses = starts.size() > 1 || numbers_of(like).size() > 1;
  // Trials of a number of chunks take one step that is not measured, and the measured steps. `like` needs no trials if
  // it is measured.
  const int64_t of_two = 2 * (1 + std::max(repeats, min_repeats)), needed = repeats > 0 ? of_two / 2 : of_two;
  if (starts.empty() || starts.front() != like || !chooses || trials < needed) {
    made_ = true;
    return;
  }
  starts.resize(std::clamp<int64_t>(trials / of_two, 1, std::ssize(starts)), like);
  if (repeats == 0)
    repeats = std::clamp(trials / (max_measured_steps * std::ssize(starts)) - 1, min_repeats, max_repeats);
  for (const MoeSchedule& start : starts) {
    GranularitySearch::State known;
    for (const ScheduleCandidate& c : candidates_)
      if (is_family(c.schedule, start) && !c.measured.empty())
        known.samples[{rows_of_layer(recipe_), c.schedule.chunks}] = c.measured;
    const std::vector<int64_t>& numbers = numbers_of(start);
    Search search{start, numbers, repeats, GranularitySearch(numbers, repeats, std::move(known))};
    searches_.push_back(std::move(search));
  }
  continue_search();
}

// Returns the number of trial steps after which the search has all measured steps of `n` chunks.
int64_t ScheduleChoice::steps_to_measure(const Search& search, int64_t n) const {
  const auto& samples = search.chunks.state().samples;
  const auto found = samples.find({rows_of_layer(recipe_), n});
  const int64_t missing = search.repeats - (found == samples.end() ? 0 : std::ssize(found->second));
  if (missing <= 0) return 0;
  return missing + (warm_ && current().schedule == with_chunks(search.start, n) ? 0 : 1);
}

// Returns the next number of chunks to try in a search, or its result. A number is tried only if the search has the
// steps for all its measurements.
Trial ScheduleChoice::next_of(Search& search) {
  const int64_t tokens = rows_of_layer(recipe_);
  GranularitySearch& chunks = search.chunks;
  const auto affordable = [&](int64_t n) { return turn_ + steps_to_measure(search, n) <= search_end_; };
  const bool known = chunks.state().chosen.contains(tokens), first = chunks.state().ranges.empty();
  Trial next{search.start.chunks, false};  // the predicted number comes first
  if (known || !first || chunks.measured(tokens, next.n)) next = chunks.propose(tokens);
  if (!next.settled && !affordable(next.n))
    next = {chunks.conclude(tokens, first ? search.start.chunks : chunks.state().chosen.rbegin()->second), true};
  // If `tokens` lies in a known range, propose() may return a number of chunks that was never measured. With several
  // searches, this number must be measured, because the searches are compared by the times of their results.
  if (next.settled && searches_.size() > 1 && !chunks.measured(tokens, next.n) && affordable(next.n))
    return {next.n, false};
  return next;
}

// Sets the next schedule to try, or the result of the searches. The remaining trials are divided equally among the
// remaining searches.
void ScheduleChoice::continue_search() {
  for (; searched_ < searches_.size(); ++searched_, search_end_ = 0) {
    if (search_end_ == 0) search_end_ = turn_ + (turns_ - turn_) / static_cast<int64_t>(searches_.size() - searched_);
    Search& search = searches_[searched_];
    const Trial next = next_of(search);
    if (!next.settled) return set(index_of(with_chunks(search.start, next.n)));
  }
  end_searches();
}

// Chooses the fastest result of all searches.
void ScheduleChoice::end_searches() {
  const int64_t tokens = rows_of_layer(recipe_);
  const auto chunks = [&](size_t i) { return searches_[i].chunks.state().chosen.at(tokens); };
  const auto measured = [&](size_t i) { return searches_[i].chunks.measured(tokens, chunks(i)); };
  const auto candidate = [&](size_t i) { return index_of(with_chunks(searches_[i].start, chunks(i))); };
  std::vector<Timed> timed;
  // The preferred result comes first, so it wins if no other result is distinctly faster.
  if (const auto seconds = measured(preferred_)) timed.push_back({candidate(preferred_), *seconds});
  for (size_t i = 0; i < searches_.size() && !timed.empty(); ++i)
    if (const auto seconds = measured(i)) timed.push_back({candidate(i), *seconds});
  // Without times of the preferred result, no other result can be shown to be faster.
  set(timed.empty() ? candidate(preferred_) : fastest(timed));
  made_ = true;
}

// Alternates between the finalists, so that a slow minute of the machine affects all finalists.
void ScheduleChoice::begin_trial() {
  if (tries_families()) set(finalists_[turn_ / steps_of_round % finalists_.size()]);
}

void ScheduleChoice::end_trial(const std::vector<PassRecorder::LayerTime>& layers) {
  const bool of_families = tries_families(), changed = !std::exchange(warm_, true);
  ++turn_;
  if (changed) return;
  ScheduleCandidate& tried = candidates_[current_];
  tried.measured.push_back(world_.all_reduce_value(plan::layer_seconds(layers), comm::Reduce::max, instance_.device()));
  if (of_families) {
    if (!tries_families()) end_families();
    return;
  }
  searches_[searched_].chunks.record(rows_of_layer(recipe_), tried.schedule.chunks, tried.measured.back());
  continue_search();
}

// Chooses the fastest finalist. Finalists are in the order of their predictions, but the default schedule has the place
// of the finalist that it replaced. The first finalist whose time is indistinct from the fastest wins.
void ScheduleChoice::end_families() {
  std::vector<Timed> timed;
  for (const size_t f : finalists_) timed.push_back({f, summary_of(candidates_[f].measured)});
  set(fastest(timed));
  if (chunks_open(recipe_, current().schedule))
    begin_searches(MoeSchedule(current().schedule), family_turns_ / (steps_of_round * std::ssize(finalists_)));
  else
    made_ = true;
}

size_t ScheduleChoice::index_of(const MoeSchedule& schedule) {
  const auto known = std::ranges::find(candidates_, schedule, &ScheduleCandidate::schedule);
  if (known != candidates_.end()) return known - candidates_.begin();
  candidates_.push_back(predicted_schedule(recipe_, instance_.extensions, predictor_, world_, schedule));
  return candidates_.size() - 1;
}

void ScheduleChoice::set(size_t candidate) {
  warm_ = warm_ && candidate == current_;
  current_ = candidate;
  instance_.reschedule(candidates_[candidate].schedule);
}

std::vector<moe::ReuseStrategy> ScheduleChoice::untried() const {
  std::vector<moe::ReuseStrategy> all;
  for (const ScheduleCandidate& c : candidates_)
    if (std::ranges::find(all, c.schedule.memory_reuse) == all.end()) all.push_back(c.schedule.memory_reuse);
  std::erase_if(all, [&](moe::ReuseStrategy strategy) {
    return strategy == current().schedule.memory_reuse ||
           std::ranges::any_of(candidates_, [&](const ScheduleCandidate& c) {
             return c.schedule.memory_reuse == strategy && !c.measured.empty();
           });
  });
  return all;
}

std::string ScheduleChoice::to_string(const ScheduleCandidate& c) {
  std::string out = fmt::format("{}: predicted {:.2f} ms", moe::to_string(c.schedule), 1e3 * c.predicted);
  if (const double seconds = c.measured_seconds(); seconds > 0)
    out += fmt::format(", measured {:.2f} ms ({:+.1f}%)", 1e3 * seconds, 100 * (c.predicted / seconds - 1));
  return out;
}

}  // namespace hexad::plan
