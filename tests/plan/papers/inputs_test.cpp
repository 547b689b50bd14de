#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "framework/base/error.h"
#include "tools/plan/papers/paper.h"

namespace hexad::plan {
namespace {

using Json = nlohmann::ordered_json;
using Overrides = std::vector<std::string>;

Paper paper_of(std::string_view name) {
  const auto all = papers();
  return *std::ranges::find(all, name, &Paper::name);
}

/// Evaluates the paper's example `file` of recipes/papers, with overrides. Returns the results.
Json example(std::string_view paper, const std::string& file, const Overrides& overrides = {}) {
  const std::string path = HEXAD_SOURCE_DIR "/recipes/papers/" + file;
  return Json::parse(paper_of(paper).evaluate(config::load(path, overrides)));
}

std::string refusal(std::string_view paper, std::string_view text) {
  try {
    paper_of(paper).evaluate(config::parse(text, "x.yaml"));
  } catch (const base::Error& e) {
    return e.code() == base::ExitCode::usage ? e.what() : "wrong exit code";
  }
  return "accepted";
}

/// Expects a printed value in milliseconds. The papers truncate digits, and then add the truncated values.
void expect_milliseconds(const Json& seconds, double printed) {
  EXPECT_NEAR(seconds.get<double>() * 1e3, printed, 0.005) << seconds;
}

TEST(Inputs, MontasExampleGivesTable8) {
  const Json out = example("monta", "monta-table8.yaml");
  expect_milliseconds(out["baseline"]["T_seconds"], 6.909);
  expect_milliseconds(out["O1"]["AA"]["seconds"], 1.012);
  expect_milliseconds(out["O1"]["AG"]["seconds"], 1.443);
  expect_milliseconds(out["O1"]["T_seconds"], 2.456);
  expect_milliseconds(out["O2"]["AA_j"]["seconds"], 0.374);
  expect_milliseconds(out["O2"]["AG_j"]["seconds"], 0.385);
  expect_milliseconds(out["O2"]["T_seconds"], 2.114);
  expect_milliseconds(out["O3"]["T_seconds"], 1.964);
  EXPECT_EQ(out["O2"]["N"], 4);
  EXPECT_EQ(out["S"], "O3");
  EXPECT_NEAR(out["limits_with_equal_efficiencies"]["O1_over_baseline"].get<double>(), 0.344, 0.0005);
  EXPECT_DOUBLE_EQ(out["limits_with_equal_efficiencies"]["O3_over_baseline"].get<double>(), 7.0 / 32);
}

TEST(Inputs, MontasCurvesUnderContentionChangeTheChoice) {
  const Json out = example("monta", "monta-table8.yaml", {"r2_O3=0.5", "r3_O3=0.05"});
  EXPECT_EQ(out["S"], "O2");
  expect_milliseconds(out["O2"]["T_seconds"], 2.114);
}

TEST(Inputs, MontaSearchesForChunksAndGivesMemoryAndStep) {
  const std::string text = R"(
b: 1
s: 8192
h: 8192
k: 2
t: 8
e: 2
I_minimal: 1e6
B1: 25e9
r1: [[8e6, 0.427], [32e6, 0.632], [256e6, 0.741]]
B2: 200e9
r2: 0.75
B3: 1.6e12
r3: 0.8
memory: {P1: 7e9, P2: 40e9, l: 32, a: 64, load: 1.5}
step: {T_step: 1.0, n_A2A: 30, tokens: 65536, F: 1e16, FP: 5e15}
)";
  const Json out = Json::parse(paper_of("monta").evaluate(config::parse(text, "x.yaml")));
  EXPECT_EQ(out["I_bytes"], 256.0 * (1 << 20));
  EXPECT_EQ(out["O2"]["tried"].size(), 33u);  // 268e6 / 8 / 1e6
  EXPECT_EQ(out["memory"]["states_by_table_3"][0]["psi_1_bytes"], 16 * 7e9 / 8);
  EXPECT_EQ(out["memory"]["states_with_f32_gradients"][0]["psi_1_bytes"], 18 * 7e9 / 8);
  const Json& step = out["step"];
  EXPECT_NEAR(step["baseline"]["all_to_all_share"].get<double>(), 30 * out["baseline"]["T_seconds"].get<double>(),
              1e-12);
  EXPECT_LT(step["latency_change"].get<double>(), 0);
  EXPECT_GT(step["strategy"]["mfu"].get<double>(), step["baseline"]["mfu"].get<double>());
  EXPECT_EQ(step["baseline"]["mfu"], 2);
}

TEST(Inputs, MpmoesExampleGivesTheSavings) {
  const Json out = example("mpmoe", "mpmoe-gpt-xl.yaml");
  const auto saved = [&](size_t i) { return out["memory"]["by_n"][i]["delta_M_act"]["elements"].get<double>(); };
  EXPECT_EQ(out["memory"]["by_n"][1]["n"], 2);
  EXPECT_EQ(saved(0), 0);
  EXPECT_EQ(saved(2) / saved(1), 2);
  EXPECT_EQ(saved(3) / saved(1), 2.5);
  EXPECT_EQ(out["configurations"].size(), 4u * 5);
  EXPECT_EQ(out["overlap_pays"], true);
  for (const Json& c : out["configurations"]) {
    EXPECT_LE(c["share_of_ideal"].get<double>(), 1) << c;
    EXPECT_GE(c["seconds"], out[c["S"] == "none" ? "best_without_memory_reuse" : "best_with_memory_reuse"]["seconds"]);
  }
}

TEST(Inputs, MpmoeWithoutSpeedsGivesOnlyMemory) {
  const Json out = Json::parse(paper_of("mpmoe").evaluate(config::parse("{M: 8, H: 32, B: 64, E: 4}", "x.yaml")));
  EXPECT_TRUE(out.contains("memory"));
  EXPECT_FALSE(out.contains("configurations"));
}

TEST(Inputs, ParmsExampleGivesTheLayer) {
  const Json out = example("parm", "parm-table3.yaml");
  EXPECT_DOUBLE_EQ(out["x_elements"].get<double>(), 4.0 * 1024 * 2048);
  EXPECT_DOUBLE_EQ(out["y_elements"].get<double>(), 4 * 2.4 * 4 * 1024 * 2048);
  EXPECT_EQ(out["placement"]["case"], 2);
  EXPECT_EQ(out["placement"]["AG_ESP"]["link"], "intra");
  EXPECT_EQ(out["t_D2_overlap"], "by phases");
  EXPECT_NEAR(out["fits"]["A2A"]["beta_seconds_per_element"].get<double>(), 1.28e-9, 1e-11);
  for (const Json& claim : out["claims"]) EXPECT_EQ(claim["holds"], true) << claim;
  const double best = std::min(out["t_D1_seconds"].get<double>(), out["t_D2_seconds"].get<double>());
  EXPECT_DOUBLE_EQ(out["baseline"]["speedup"].get<double>(), out["baseline"]["t_B_seconds"].get<double>() / best);
  // Every collective of the baseline carries N_MP times as much data as necessary, and the baseline has two more
  // collectives.
  EXPECT_GT(out["baseline"]["speedup"].get<double>(), 4);
}

TEST(Inputs, EpsGivesFiveGroupsAndTable7) {
  const Json out = example("eps", "eps-deepseek-v2.yaml");
  EXPECT_EQ(out["pipeline"]["N"], 5);
  EXPECT_NEAR(out["pipeline"]["N_unrestricted"].get<double>(), 6.5, 0.1);
  expect_milliseconds(out["pipeline"]["tried"][3]["T_seconds"], 4.299);  // 5 groups
  expect_milliseconds(out["pipeline"]["tried"][5]["T_seconds"], 4.855);  // 20 groups
  const double e0[] = {0.32, 0.2, 0.24, 0.07, 0.02}, e1[] = {0.02, 0, 0, 0, 0.03};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(out["pays"][i]["e0"].get<double>(), e0[i], 0.005) << i;
    EXPECT_NEAR(out["pays"][i]["e1"].get<double>(), e1[i], 0.005) << i;
    EXPECT_EQ(out["pays"][i]["pays"], true) << i;
  }
  EXPECT_LT(out["V"]["TP+EP"]["dispatch_bytes"], out["V"]["TP+TP"]["dispatch_bytes"]);
}

TEST(Inputs, EpsGivesTimesAndSplits) {
  const std::string text = R"(
{E: 8, k: 2, D: 4, m: 4096, P: 33554432,
 time: {FP: 1e15, BW: 3e12, NW: 2e11, L: 32,
        Attn: {M_in: 33554432, M_out: 33554432, M_weight: 83886080, F: 3.4e11},
        MoE: {M_in: 33554432, M_out: 33554432, M_weight: 2818572288, F: 2.9e12}},
 split: {N: 4, P0: 8192, P1: 28672, W: 352321536, C: 3.6e11, R: [[2, 5e14], [8, 6e14]]}}
)";
  const Json out = Json::parse(paper_of("eps").evaluate(config::parse(text, "x.yaml")));
  EXPECT_NEAR(out["g"].get<double>(), 4 * (1 - (6.0 * 5) / (8 * 7)), 1e-12);
  for (const std::string mode : {"TP+TP", "DP+EP", "TP+EP"}) {
    const Json& t = out["time"][mode];
    EXPECT_NEAR(
        t["T_LLM_seconds"].get<double>(),
        32 * (t["T_Attn_seconds"].get<double>() + t["T_MoE_seconds"].get<double>() + t["T_Comm_seconds"].get<double>()),
        1e-12);
  }
  EXPECT_GT(out["split"]["by_columns"]["V_bytes"], out["split"]["by_experts"]["V_bytes"]);
  EXPECT_DOUBLE_EQ(out["split"]["by_experts"]["T_seconds"].get<double>(), 8 * 3.6e11 / 5e14);
}

TEST(Inputs, EveryProblemIsNamedWithItsLine) {
  const std::string text =
      refusal("monta", "t: 8\ne: 1\nB1: 25e9\nr1: 1.2\nB2: 200e9\nr2: [[0, 0.5], [10, 0.6]]\nB3: 1e12\nr_3: 0.8\n");
  for (const std::string part :
       {"x.yaml:2: e (1) must be at least 2", "x.yaml:4: r1 (1.2) must be at most 1",
        "x.yaml:6: r2 ([[0, 0.5], [10, 0.6]]) must start at a size above 0",
        "x.yaml:8: r_3 is not a key; did you mean r3?", "x.yaml: r3 is not set; it must be greater than 0",
        "x.yaml: I (none by default) must be given, unless b, s and h are given: I is then the product of b, s, h, k "
        "and BPE",
        "x.yaml: I_minimal (none by default) must be given, unless N, the number of chunks, is given"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

const std::string monta = "{t: 8, e: 2, B1: 1, r1: 1, B2: 1, r2: 1, B3: 1, r3: 1, ";

TEST(Inputs, MontaRefusesKeysWithoutEffect) {
  EXPECT_EQ(refusal("monta", monta + "N: 4, I: 5, h: 3, BPE: 4}"),
            "x.yaml:1: h (3) has no effect if I is given and memory is not; remove this key\n"
            "x.yaml:1: BPE (4) has no effect if I is given; remove this key");
  EXPECT_EQ(refusal("monta", monta + "N: 4, I: 5, I_minimal: 1}"),
            "x.yaml:1: I_minimal (1) has no effect if N, the number of chunks, is given; remove this key");
  EXPECT_EQ(refusal("monta", monta + "I_minimal: 1, I: 1e9}"),
            "x.yaml:1: I_minimal (1) allows more than 1024 chunks of I/t; expected at least 122071 bytes");
  EXPECT_EQ(refusal("monta", monta + "N: 1, I: 5, memory: {P1: 1, P2: 1, l: 1}}"),
            "x.yaml:1: memory needs b, s and h; set them, or remove memory");
  EXPECT_EQ(
      refusal("monta", monta + "N: 1, I: 5, step: {T_step: 1, n_A2A: 3, tokens: 1, F: 1, FP: 1}}"),
      "x.yaml:1: step.n_A2A (3) all-to-alls of 2.5 s each take 7.5 s in total; expected less than step.T_step, 1 s");
  EXPECT_EQ(refusal("monta", monta + "N: 4, I: 5}"), "accepted");
}

TEST(Inputs, MpmoeRefusesAnIncompleteMachineAndEmptyParts) {
  EXPECT_EQ(refusal("mpmoe", "{M: 8, H: 32, B: 4, E: 4, k: 5, n: [1, 8], W_comm: 1e9, W_comp: 1e12}"),
            "x.yaml: W_mem (none by default) must be given if another speed, W_*, is given\n"
            "x.yaml:1: k (5) must be at most E (4)\nx.yaml:1: n.1 (8) must be at most B (4), the number of tokens");
  EXPECT_EQ(refusal("mpmoe", "{M: 8, H: 32, B: 64, E: 4, alpha: {comm_comp: 0.4, mem_all: 0.5}}"),
            "x.yaml:1: alpha.mem_all (0.5) has no effect unless the speeds, W_*, are given; remove this key");
}

const std::string parm = "{B: 1, L: 8, M: 8, E: 2, N_EP: 2, N_ESP: 2, ";

TEST(Inputs, ParmRefusesCollectivesWithIncompletePrices) {
  EXPECT_EQ(refusal("parm", parm + "N_MP: 2, alpha_A2A: 1}"),
            "x.yaml: beta_A2A (none by default) must be given together with alpha_A2A\n"
            "x.yaml: alpha_AG_MP (none by default) must be given together with beta_AG_MP, or measured_AG_MP in "
            "place of both, because N_MP is "
            "above 1");
  EXPECT_EQ(refusal("parm", parm + "N_MP: 1, measured_A2A: 3}"),
            "x.yaml:1: measured_A2A (3) must be at least two points, [[elements, seconds], ...]");
  EXPECT_EQ(refusal("parm", parm + "N_MP: 1, measured_A2A: [[1, 2], [2, 1]]}"),
            "x.yaml:1: measured_A2A ([[1, 2], [2, 1]]) must rise, but changes by -1 s per element; the line would give "
            "large collectives negative seconds");
  EXPECT_EQ(refusal("parm", parm + "N_MP: 1, alpha_A2A: 1, beta_A2A: 1, measured_A2A: [[1, 1], [2, 2]]}"),
            "x.yaml:1: measured_A2A ([[1, 1], [2, 2]]) must not be given together with alpha_A2A or beta_A2A");
  EXPECT_EQ(refusal("parm", parm + "N_MP: 1, alpha_A2A: 1, beta_A2A: 1, alpha_o: 1, beta_o: 1, inner: EP}"),
            "x.yaml:1: alpha_o (1) has no effect with N_MP = 1, because there is no MP-AllGather; remove this key\n"
            "x.yaml:1: beta_o (1) has no effect with N_MP = 1, because there is no MP-AllGather; remove this key\n"
            "x.yaml:1: inner (EP) has no effect without ranks_per_node; remove this key");
  EXPECT_EQ(refusal("parm", parm + "N_MP: 1, alpha_A2A: 1, beta_A2A: 1}"), "accepted");
}

const std::string eps = "{E: 8, k: 2, D: 4, m: 64, P: 1024, ";

TEST(Inputs, EpsRefusesImpossibleDevicesAndOverheads) {
  EXPECT_EQ(
      refusal("eps", "{E: 9, k: 2, D: 4, m: 64, P: 1024, g: 3}"),
      "x.yaml:1: E (9) must be divisible by D (4); nearest: 8, 12\nx.yaml:1: g (3) must be at most min(k, D) (2)");
  EXPECT_EQ(refusal("eps", eps + "pipeline: {T_comm: 1, T_comp: 1, R: {k: 1}}}"),
            "x.yaml:1: pipeline.R.b (none by default) must be given together with k, unless measured is given");
  EXPECT_EQ(
      refusal("eps", eps + "pipeline: {T_comm: 1, T_comp: 1, R: {measured: [[1, 2], [2, 1]]}}}"),
      "x.yaml:1: pipeline.R.measured ([[1, 2], [2, 1]]) must rise, but changes by -1 s per group; without an overhead "
      "per group, more groups would always be better");
  EXPECT_EQ(refusal("eps", eps + "split: {N: 3, P0: 1, P1: 1, W: 1, C: 1, R: 1}}"),
            "x.yaml:1: split.N (3) must divide E (8)");
  EXPECT_EQ(refusal("eps", eps + "g: auto}"), "accepted");
}

TEST(Inputs, HelpListsEveryKeyOfEveryExample) {
  for (const auto& [paper, file] : {std::pair{"monta", "monta-table8.yaml"}, std::pair{"mpmoe", "mpmoe-gpt-xl.yaml"},
                                    std::pair{"parm", "parm-table3.yaml"}, std::pair{"eps", "eps-deepseek-v2.yaml"}}) {
    const std::string keys = paper_of(paper).keys();
    const config::Document document = config::load(HEXAD_SOURCE_DIR "/recipes/papers/" + std::string(file));
    for (const config::Node& node : document.root.children)
      EXPECT_NE(("\n" + keys).find("\n  " + node.key + " "), std::string::npos) << node.key << " of " << paper;
  }
  EXPECT_NE(paper_of("monta").keys().find("required      [bytes/s] bandwidth of the all-to-all"), std::string::npos);
  EXPECT_NE(paper_of("eps").keys().find("  pipeline.R.k           none  "), std::string::npos);
  EXPECT_NE(paper_of("eps").keys().find("  pays.m                 required  "), std::string::npos);
}

}  // namespace
}  // namespace hexad::plan
