#include "tools/check_cluster/figures_json.h"

#include <nlohmann/json.hpp>

namespace hexad::check_cluster {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const CardState& s) {
  const auto known = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"driver", s.driver.empty() ? Json(nullptr) : Json(s.driver)},
          {"uncorrected_errors", known(s.uncorrected_errors)},
          {"throttle_reasons", known(s.throttle_reasons)},
          {"temperature", known(s.temperature)},
          {"clock", known(s.clock)},
          {"highest_clock", known(s.highest_clock)}};
}

CardState card_state_from(const Json& j) {
  const auto read = [&]<class T>(const char* key, std::optional<T>& value) {
    if (!j.at(key).is_null()) value = j.at(key).get<T>();
  };
  CardState s;
  if (!j.at("driver").is_null()) s.driver = j.at("driver").get<std::string>();
  read("uncorrected_errors", s.uncorrected_errors), read("throttle_reasons", s.throttle_reasons);
  read("temperature", s.temperature), read("clock", s.clock), read("highest_clock", s.highest_clock);
  return s;
}

Json json_of(const RankFacts& f) {
  return {{"node", f.host},
          {"cores", f.cores},
          {"hyperthreads", Json(f.hyperthreads)},
          {"core_quota", f.core_quota},
          {"threads", f.threads},
          {"hexad", f.version},
          {"binary", f.binary},
          {"processor", f.processor},
          {"kernel", f.kernel},
          {"libraries", f.libraries},
          {"memory_available", f.memory_available},
          {"gpu", f.card},
          {"gpu_id", f.card_id},
          {"gpu_state", json_of(f.card_state)},
          {"gpu_memory", f.card_memory},
          {"gpu_error", f.card_error},
          {"gpu_exit_code", f.card_exit_code}};
}

RankFacts facts_from(const Json& j) {
  RankFacts f;
  f.host = j.at("node").get<std::string>();
  f.cores = j.at("cores").get<std::vector<int>>();
  f.hyperthreads = j.at("hyperthreads").get<std::map<int, int>>();
  f.core_quota = j.at("core_quota").get<double>();
  f.threads = j.at("threads").get<int>();
  f.version = j.at("hexad").get<std::string>();
  f.binary = j.at("binary").get<std::string>();
  f.processor = j.at("processor").get<std::string>();
  f.kernel = j.at("kernel").get<std::string>();
  f.libraries = j.at("libraries").get<std::vector<std::string>>();
  f.memory_available = j.at("memory_available").get<int64_t>();
  f.card = j.at("gpu").get<std::string>();
  f.card_id = j.at("gpu_id").get<std::string>();
  f.card_state = card_state_from(j.at("gpu_state"));
  f.card_memory = j.at("gpu_memory").get<int64_t>();
  f.card_error = j.at("gpu_error").get<std::string>();
  f.card_exit_code = j.at("gpu_exit_code").get<int>();
  return f;
}

Json json_of(const LinkFigure& l) {
  return {{"to", l.to}, {"latency", l.latency}, {"seconds", l.seconds}, {"bytes", l.bytes}};
}

LinkFigure link_from(const Json& j) {
  return {.to = j.at("to").get<int>(),
          .latency = j.at("latency").get<double>(),
          .seconds = j.at("seconds").get<double>(),
          .bytes = j.at("bytes").get<int64_t>()};
}

Json json_of(const CollectiveFigure& c) {
  return {
      {"operation", c.operation}, {"group", c.group}, {"first", c.first}, {"ranks", c.ranks}, {"seconds", c.seconds}};
}

CollectiveFigure collective_from(const Json& j) {
  return {.operation = j.at("operation").get<std::string>(),
          .group = j.at("group").get<std::string>(),
          .first = j.at("first").get<int>(),
          .ranks = j.at("ranks").get<int>(),
          .seconds = j.at("seconds").get<double>()};
}

Json json_of(const FolderFigure& f) {
  return {{"error", f.error},
          {"write_seconds", f.write_seconds},
          {"rename_seconds", f.rename_seconds},
          {"late_seconds", f.late_seconds},
          {"stale_seconds", f.stale_seconds},
          {"missing", f.missing},
          {"stale", f.stale},
          {"torn", f.torn},
          {"lock_ignored", f.lock_ignored},
          {"lock_error", f.lock_error},
          {"free_bytes", f.free_bytes}};
}

FolderFigure folder_from(const Json& j) {
  return {.error = j.at("error").get<std::string>(),
          .write_seconds = j.at("write_seconds").get<double>(),
          .rename_seconds = j.at("rename_seconds").get<double>(),
          .late_seconds = j.at("late_seconds").get<double>(),
          .stale_seconds = j.at("stale_seconds").get<double>(),
          .missing = j.at("missing").get<std::vector<int>>(),
          .stale = j.at("stale").get<std::vector<int>>(),
          .torn = j.at("torn").get<std::vector<int>>(),
          .lock_ignored = j.at("lock_ignored").get<bool>(),
          .lock_error = j.at("lock_error").get<std::string>(),
          .free_bytes = j.at("free_bytes").get<int64_t>()};
}

Json json_of(const RankReport& r) {
  Json links = Json::array(), collectives = Json::array();
  for (const LinkFigure& l : r.links) links.push_back(json_of(l));
  for (const CollectiveFigure& c : r.collectives) collectives.push_back(json_of(c));
  return {{"rank", r.rank},
          {"node_number", r.node},
          {"facts", json_of(r.facts)},
          {"product_rate", r.product_rate},
          {"copy_rate", r.copy_rate},
          {"gpu_product_rate", r.card_product_rate},
          {"links", links},
          {"damaged_from", r.damaged_from},
          {"collectives", collectives},
          {"clock_offset", r.clock_offset ? Json(*r.clock_offset) : Json(nullptr)},
          {"clock_error", r.clock_error},
          {"folder", r.folder ? json_of(*r.folder) : Json(nullptr)}};
}

std::string text_of(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_json(const RankReport& report) { return text_of(json_of(report), -1); }

RankReport report_from_json(const std::string& text) {
  const Json j = Json::parse(text);
  RankReport r;
  r.rank = j.at("rank").get<int>();
  r.node = j.at("node_number").get<int>();
  r.facts = facts_from(j.at("facts"));
  r.product_rate = j.at("product_rate").get<double>();
  r.copy_rate = j.at("copy_rate").get<double>();
  r.card_product_rate = j.at("gpu_product_rate").get<double>();
  for (const Json& link : j.at("links")) r.links.push_back(link_from(link));
  r.damaged_from = j.at("damaged_from").get<std::vector<int>>();
  for (const Json& collective : j.at("collectives")) r.collectives.push_back(collective_from(collective));
  if (!j.at("clock_offset").is_null()) r.clock_offset = j.at("clock_offset").get<double>();
  r.clock_error = j.at("clock_error").get<double>();
  if (!j.at("folder").is_null()) r.folder = folder_from(j.at("folder"));
  return r;
}

std::string results_json(const std::vector<RankReport>& ranks, const std::vector<Finding>& findings) {
  Json found = Json::array(), reports = Json::array();
  for (const Finding& f : findings)
    found.push_back({{"severity", f.code == base::ExitCode::done ? "warning" : "failure"},
                     {"kind", f.kind},
                     {"exit_code", static_cast<int>(f.code)},
                     {"message", f.message}});
  for (const RankReport& r : ranks) reports.push_back(json_of(r));
  const Json all{{"exit_code", static_cast<int>(exit_code_of(findings))}, {"findings", found}, {"ranks", reports}};
  return text_of(all, 2);
}

}  // namespace hexad::check_cluster
