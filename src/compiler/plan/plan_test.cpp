#include "compiler/plan/plan.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/testing/error.h"

namespace tessera {
namespace {

Plan plan_of(const std::string& keys) {
  return parse_plan(
      parse_json("{\"format\": 1, \"mesh\": {\"tp\": 2}, " + keys + "\"marks\": []}", "plan.json"),
      "plan.json");
}

/// The collective_matmul of a plan that was written and read again.
int64_t written_and_read(const std::string& keys) {
  return parse_plan(to_document(plan_of(keys), Graph()), "plan.json").collective_matmul;
}

TEST(Plan, CollectiveMatmulIsOffAutoOrANumberOfChunks) {
  EXPECT_EQ(plan_of("").collective_matmul, 1);
  EXPECT_EQ(plan_of("\"collective_matmul\": \"off\", ").collective_matmul, 1);
  EXPECT_EQ(plan_of("\"collective_matmul\": \"auto\", ").collective_matmul, kAutoChunks);
  EXPECT_EQ(plan_of("\"collective_matmul\": 4, ").collective_matmul, 4);
  for (const char* keys : {"", "\"collective_matmul\": \"auto\", ", "\"collective_matmul\": 4, "})
    EXPECT_EQ(written_and_read(keys), plan_of(keys).collective_matmul) << keys;
}

TEST(Plan, TheTextOfAMeshOfManyRanksNamesTheirSteps) {
  Plan plan;
  for (const int stage : {0, 1}) {
    std::vector<Rank> ranks;
    for (int i = 0; i < 16; ++i) ranks.push_back(2 * i + stage);
    plan.meshes.push_back({"stage" + std::to_string(stage),
                           std::make_shared<const Mesh>(Shape{16}, std::vector<std::string>{"dp"},
                                                        std::move(ranks))});
  }
  EXPECT_EQ(mesh_text(plan), "stage0: dp=16 {0,2,..,30}, stage1: dp=16 {1,3,..,31}");
}

TEST(Plan, ThatWasFoundSaysSoInItsFile) {
  Plan plan;
  EXPECT_EQ(to_document(plan, Graph()).find("found"), nullptr);
  plan.is_found = true;
  EXPECT_TRUE(parse_plan(to_document(plan, Graph()), "plan.json").is_found);
}

Plan plan_on(const std::string& axes) {
  return parse_plan(parse_json("{\"mesh\": {" + axes + "}, \"marks\": []}", "plan.json"),
                    "plan.json");
}

TEST(Plan, AListInPlaceOfASizeIsTheWeightsOfTheParts) {
  const Plan plan = plan_on("\"dp\": [4, 2], \"tp\": 2");
  EXPECT_EQ(mesh_text(plan), "dp=2:1 tp=2");
  EXPECT_EQ(plan.rank_count(), 4);
  const Document written = to_document(plan, Graph());
  EXPECT_EQ(to_json(*written.find("mesh")), "{\"dp\":[2,1],\"tp\":2}");
  EXPECT_EQ(*parse_plan(written, "plan.json").meshes[0].mesh, *plan.meshes[0].mesh);
  EXPECT_EQ(mesh_text(plan_on("\"dp\": [5, 5]")), "dp=2") << "equal weights are none";
}

TEST(Plan, RefusesASizeThatIsNeitherANumberNorWeights) {
  for (const char* axes : {"\"dp\": [2, \"1\"]", "\"dp\": []", "\"dp\": \"2:1\"",
                           "\"dp\": [1.5, 1]", "\"dp\": [2, 0]", "\"mb\": [2, 1]"})
    EXPECT_THROW(plan_on(axes), UserError) << axes;
}

Plan plan_of_ranks(const std::string& keys, std::optional<int> ranks) {
  return parse_plan(parse_json("{" + keys + "}", "plan.json"), "plan.json", {.ranks = ranks});
}

TEST(Plan, AnAxisOfTheSizeRestFillsTheRanks) {
  EXPECT_EQ(mesh_text(plan_of_ranks("\"mesh\": {\"dp\": \"rest\", \"tp\": 2}", 8)), "dp=4 tp=2");
  EXPECT_EQ(mesh_text(plan_of_ranks("\"mesh\": {\"tp\": [2, 1], \"dp\": \"rest\"}", 6)),
            "tp=2:1 dp=3");
  // A stage has a list of ranks, which says it.
  const Plan stages = plan_of_ranks(
      "\"meshes\": [{\"name\": \"a\", \"mesh\": {\"dp\": \"rest\"}, \"ranks\": [0, 1, 2]}]", {});
  EXPECT_EQ(mesh_text(stages), "dp=3");
}

TEST(Plan, RefusesARestWithoutRanksOrThatDoesNotDivide) {
  EXPECT_THROW(plan_of_ranks("\"mesh\": {\"dp\": \"rest\"}", {}), UserError);
  EXPECT_THROW(plan_of_ranks("\"mesh\": {\"dp\": \"rest\", \"tp\": 2}", 7), UserError);
  EXPECT_THROW(plan_of_ranks("\"mesh\": {\"dp\": \"rest\", \"tp\": \"rest\"}", 4), UserError);
}

TEST(Plan, AllReduceNamesAnAlgorithm) {
  EXPECT_EQ(plan_of("").all_reduce, AllReduceAlgorithm::kAuto);
  EXPECT_EQ(plan_of("\"all_reduce\": \"hierarchical\", ").all_reduce,
            AllReduceAlgorithm::kHierarchical);
  EXPECT_EQ(to_document(plan_of("\"all_reduce\": \"one-shot\", "), Graph())["all_reduce"],
            Document("one-shot"));
}

TEST(Plan, CostIsTheTableOfACostFile) {
  const std::string keys = "\"cost\": {\"links\": {\"latency\": \"10 us\"}}, ";
  CostModel expected;
  expected.links.any.latency = Seconds(10e-6);
  EXPECT_EQ(plan_of(keys).cost, expected);
  EXPECT_EQ(parse_plan(to_document(plan_of(keys), Graph()), "plan.json").cost, expected);
  EXPECT_EQ(to_document(plan_of(""), Graph()).find("cost"), nullptr) << "the default";
}

TEST(Plan, BucketsAndPrefetchedExchangesAreInMib) {
  EXPECT_EQ(plan_of("").bucket, Bytes(25 << 20));
  EXPECT_EQ(plan_of("").prefetch_window, Bytes(32 << 20));
  const Plan plan = plan_of("\"bucket_mib\": 1, \"prefetch_mib\": 0.5, ");
  EXPECT_EQ(plan.bucket, Bytes(1 << 20));
  EXPECT_EQ(plan.prefetch_window, Bytes(1 << 19));
  const Document written = to_document(plan, Graph());
  EXPECT_EQ(*written.find("bucket_mib"), Document(1));
  EXPECT_EQ(*written.find("prefetch_mib"), Document(0.5));
  EXPECT_EQ(to_document(plan_of(""), Graph()).find("bucket_mib"), nullptr);
}

TEST(Plan, OffloadsAllStateOrThatOfPatterns) {
  EXPECT_EQ(plan_of("").offload, Offload{});
  EXPECT_EQ(plan_of("").offload_window, Bytes(32 << 20));
  for (const std::string keys :
       {"\"offload\": \"state\", \"offload_mib\": 4, ", "\"offload\": [\"*.exp_avg\"], "}) {
    const Plan plan = plan_of(keys);
    EXPECT_NE(plan.offload, Offload{});
    const Plan read = parse_plan(to_document(plan, Graph()), "plan.json");
    EXPECT_EQ(read.offload, plan.offload);
    EXPECT_EQ(read.offload_window, plan.offload_window);
  }
  EXPECT_EQ(plan_of("\"offload\": \"state\", \"offload_mib\": 4, ").offload_window, Bytes(4 << 20));
  EXPECT_EQ(
      error_testing::message_of(ExitCode::kBadConfig, [] { plan_of("\"offload\": \"all\", "); }),
      "plan.json: offload is \"all\"\n"
      "  why: it says which state of the optimizer rests in a file: none, all of it, or the "
      "variables that match a pattern\n"
      "  fix: write \"none\", \"state\" or a list of patterns such as [\"*.exp_avg_sq\"]");
}

/// The message of check_fits for a graph of one parameter, with or without state.
std::string offload_message(const std::string& keys, bool has_state) {
  Graph graph;
  const TensorType type{DType::kF32, {4}};
  graph.add_variable("w", type, Initializer::constant(0));
  if (has_state)
    graph.add_variable("w.exp_avg", type, Initializer::constant(0), false, {"w", "optimizer"});
  try {
    check_fits(plan_of(keys), graph);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Plan, OffloadsWhatTheOptimizerKeeps) {
  EXPECT_EQ(offload_message("\"offload\": [\"*.exp_avg\"], ", true), "");
  EXPECT_EQ(offload_message("\"offload\": \"state\", ", false),
            "plan 'plan.json' offloads the state of the optimizer, and there is none\n"
            "  why: the optimizer of this run keeps nothing from step to step\n"
            "  fix: remove offload from the plan, or use momentum, adam, adamw, lamb or muon");
  EXPECT_EQ(offload_message("\"offload\": [\"w\"], ", true),
            "the pattern 'w' of 'offload' in plan 'plan.json' names no state of the optimizer\n"
            "  why: only variables of the optimizer rest in a file, such as 'w.exp_avg'\n"
            "  fix: list the names with `tessera explain --full`");
}

TEST(Plan, HalosAreExchangedRecomputedOrTheCheaper) {
  EXPECT_EQ(plan_of("").halos, HaloForm::kAuto);
  for (const HaloForm form : {HaloForm::kExchange, HaloForm::kRecompute}) {
    const Plan plan = plan_of("\"halos\": \"" + std::string(to_text(form)) + "\", ");
    EXPECT_EQ(plan.halos, form);
    EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").halos, form);
  }
}

Plan plan_of_marks(const std::string& rest) {
  return parse_plan(parse_json("{\"mesh\": {\"tp\": 2}, " + rest + "}", "plan.json"), "plan.json");
}

TEST(Plan, MarksNameTensorsOpsAndModulesAndHowLongCopiesLive) {
  const Plan plan = plan_of_marks(
      "\"marks\": [{\"tensor\": \"w\", \"copies\": \"pass\"},"
      "{\"module\": \"attn\", \"placement\": \"-> [P()]\"}]");
  EXPECT_EQ(plan.marks[0].copies, ReplicaLifetime::kPass);
  EXPECT_EQ(plan.marks[1].kind, Mark::Kind::kModule);
  EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").marks, plan.marks);
  EXPECT_THROW(plan_of_marks("\"marks\": [{\"op\": \"w\", \"copies\": \"pass\"}]"), UserError);
  EXPECT_THROW(plan_of_marks("\"marks\": [{\"op\": \"w\", \"module\": \"v\", \"mesh\": \"a\"}]"),
               UserError);
}

TEST(Plan, HasMarksOrResolvedShardings) {
  const std::string shardings = "\"shardings\": {\"train\": {\"ops\": {\"m@tp\": [\"y\"]}}}";
  const Plan plan = plan_of_marks(shardings);
  EXPECT_EQ(plan.shardings->find(kTrainSection)->ops.front().text, "m@tp");
  EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").shardings, plan.shardings);
  EXPECT_THROW(plan_of_marks(shardings + ", \"marks\": [{\"tensor\": \"w\", \"mesh\": \"a\"}]"),
               UserError);
}

std::string message_of(const std::string& keys) {
  try {
    plan_of(keys);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "no error";
}

TEST(Plan, AScheduleNeedsSeveralMicroBatches) {
  for (const char* schedule : {"zb-v", "f-then-b", "auto"}) {
    const std::string key = std::string("\"schedule\": \"") + schedule + "\", ";
    EXPECT_EQ(message_of(key), std::string("plan.json has schedule '") + schedule +
                                   "' and one micro-batch\n"
                                   "  why: a schedule orders the passes of several micro-batches\n"
                                   "  fix: set micro_batches to 2 or more, or remove 'schedule'");
    EXPECT_EQ(message_of("\"micro_batches\": 2, " + key), "no error");
  }
  EXPECT_EQ(message_of("\"schedule\": \"1f1b\", "), "no error");  // the default, which files write
}

TEST(Plan, AccumulateMultipliesTheMicroBatchesAndIsWrittenAsItIsRead) {
  const Plan plan = plan_of("\"accumulate\": 4, \"micro_batches\": 8, ");
  EXPECT_EQ(plan.accumulate, 4);
  EXPECT_EQ(plan.micro_batches, 32);
  const Document written = to_document(plan, Graph());
  EXPECT_EQ(to_json(*written.find("accumulate")), "4");
  EXPECT_EQ(to_json(*written.find("micro_batches")), "8");
  EXPECT_EQ(plan_of("\"accumulate\": 4, ").micro_batches, 4);
  EXPECT_FALSE(to_document(plan_of(""), Graph()).find("accumulate"));
  // A search has chosen another number.
  Plan other = plan;
  other.micro_batches = 6;
  EXPECT_EQ(parse_plan(to_document(other, Graph()), "plan.json").micro_batches, 6);
}

TEST(Plan, RecomputeAutoHasALimitAndIsWrittenAsItIsRead) {
  const Plan plan = plan_of("\"recompute\": \"auto\", \"activation_mib\": 0.5, ");
  EXPECT_EQ(plan.recompute.kind, Recompute::Kind::kAuto);
  EXPECT_EQ(plan.recompute.limit, Bytes(1 << 19));
  EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").recompute, plan.recompute);
  EXPECT_EQ(message_of("\"recompute\": \"auto\", "),
            "plan.json: recompute is \"auto\" and there is no activation_mib\n"
            "  why: auto chooses what costs least under a limit of the activations that a rank "
            "keeps\n"
            "  fix: set activation_mib, such as to 512");
  EXPECT_EQ(
      message_of("\"recompute\": \"full\", \"activation_mib\": 4, "),
      "plan.json has activation_mib and recompute is not \"auto\"\n"
      "  why: activation_mib limits what \"auto\" keeps; the other values of recompute say it\n"
      "  fix: write recompute = \"auto\", or remove activation_mib");
}

TEST(Plan, TasksAreAWordOrPatternsAndAreWrittenAsTheyAreRead) {
  using Kind = TaskGranularity::Kind;
  EXPECT_EQ(plan_of("").tasks, (TaskGranularity{Kind::kRole}));
  EXPECT_EQ(plan_of("\"tasks\": \"role\", ").tasks, (TaskGranularity{Kind::kRole}));
  EXPECT_EQ(plan_of("\"tasks\": \"layer\", ").tasks, (TaskGranularity{Kind::kLayer}));
  EXPECT_EQ(plan_of("\"tasks\": \"op\", ").tasks, (TaskGranularity{Kind::kOp}));
  EXPECT_EQ(plan_of("\"tasks\": [\"*.attn.*\", \"head\"], ").tasks,
            (TaskGranularity{Kind::kPatterns, {"*.attn.*", "head"}}));
  for (const char* keys : {"", "\"tasks\": \"layer\", ", "\"tasks\": [\"*.attn.*\", \"head\"], "})
    EXPECT_EQ(parse_plan(to_document(plan_of(keys), Graph()), "plan.json").tasks,
              plan_of(keys).tasks);
  EXPECT_EQ(
      message_of("\"tasks\": 3, "),
      "plan.json: tasks is 3\n"
      "  why: it says where tasks end: where the role changes, where a layer ends, after each "
      "op, or where ops stop to match a pattern\n"
      "  fix: write \"role\", \"layer\", \"op\" or a list of patterns such as "
      "[\"*.attn.*\"]");
  EXPECT_EQ(message_of("\"tasks\": [], ").substr(0, 22), "plan.json: tasks is []");
}

TEST(Plan, APatternOfTasksNamesAnOpOfTheModel) {
  const Graph graph = parse_graph("input x: f32[4]\nblocks.0.attn = relu(x): f32[4]\n");
  check_fits(plan_of("\"tasks\": [\"blocks.*\"], "), graph);
  try {
    check_fits(plan_of("\"tasks\": [\"blocks.0.atn\"], "), graph);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the pattern 'blocks.0.atn' of 'tasks' in plan 'plan.json' names no op of this "
                 "model\n"
                 "  why: tasks end where ops stop to match it\n"
                 "  fix: did you mean 'blocks.0.attn'?");
  }
}

// What the backward makes is not kept for it.
TEST(Plan, APatternOfRecomputeNamesAnOpOfTheForward) {
  const Graph graph = parse_graph(
      "input x: f32[4]\ny = relu(x): f32[4]\n"
      "y.grad = mul(y, y): f32[4] @backward <- gradient y\n");
  check_fits(plan_of("\"recompute\": [\"y*\"], "), graph);
  EXPECT_THROW(check_fits(plan_of("\"recompute\": [\"*.grad\"], "), graph), UserError);
}

TEST(Plan, KeysAndValuesOfFormerVersionsAreRefusedWithTheirNewNames) {
  EXPECT_EQ(message_of("\"most_kept\": 4, "),
            "plan.json: the key 'most_kept' has a new name\n"
            "  why: it is now called 'max_in_flight'\n"
            "  fix: write 'max_in_flight' instead");
  EXPECT_EQ(message_of("\"sums\": \"direct\", "),
            "plan.json: the key 'sums' has a new name\n"
            "  why: it is now called 'all_reduce'\n"
            "  fix: write 'all_reduce' instead");
  EXPECT_EQ(message_of("\"all_reduce\": \"scattered\", "),
            "plan.json: all_reduce = \"scattered\" has a new name\n"
            "  why: the value 'scattered' is now called 'reduce-scatter-all-gather'\n"
            "  fix: set all_reduce to 'reduce-scatter-all-gather'");
}

Graph small_graph() {
  return parse_graph("input x: f32[4]\ny = exp(x): f32[4]\noutput y = y\n");
}

/// A plan that was written for small_graph() and read again.
Plan stamped(const std::optional<RewrittenFingerprint>& rewritten) {
  return parse_plan(to_document(plan_of(""), small_graph(), rewritten), "plan.json");
}

TEST(Plan, IsStampedWithTheGraphBeforeAndAfterThePasses) {
  const RewrittenFingerprint after{"00000000000000ff", {"fold", "cse"}};
  const Plan plan = stamped(after);
  check_fits(plan, small_graph());
  EXPECT_EQ(plan.fingerprint->rewritten, after);
  EXPECT_EQ(describe_other_passes(plan, after), "");
  EXPECT_EQ(describe_other_passes(plan, {"0000000000000001", {}}),
            "the plan was written after fold, cse had rewritten the graph; after no passes the "
            "graph is another one, which computes the same");
}

TEST(Plan, OfAFormerVersionSaysNothingOfPasses) {
  const Plan plan = stamped(std::nullopt);
  check_fits(plan, small_graph());
  EXPECT_EQ(plan.fingerprint->rewritten, std::nullopt);
  EXPECT_EQ(describe_other_passes(plan, {"0000000000000001", {"cse"}}), "");
}

// Passes that find nothing to do leave the graph, whatever their names are.
TEST(Plan, FitsTheSameGraphOfOtherPasses) {
  const Plan plan = stamped(rewritten_fingerprint(small_graph(), {"fold", "cse"}));
  EXPECT_EQ(describe_other_passes(plan, rewritten_fingerprint(small_graph(), {})), "");
}

TEST(Plan, KeepsTheMappingOfItsRanks) {
  const std::string keys =
      "\"mapping\": {\"cluster\": \"2xa100\", \"devices\": [\"n0/1\", \"n0/0\"]}, ";
  const Plan plan = plan_of(keys);
  ASSERT_TRUE(plan.mapping.has_value());
  EXPECT_EQ(*plan.mapping, (RankMapping{"2xa100", {"n0/1", "n0/0"}}));
  EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").mapping, plan.mapping);
  EXPECT_EQ(to_document(plan_of(""), Graph()).find("mapping"), nullptr);
}

TEST(Plan, RefusesAMappingThatDoesNotGiveEachRankADevice) {
  for (const char* devices :
       {"[\"n0/0\"]", "[\"n0/0\", \"n0/0\"]", "[]", "[\"n0/0\", \"n0/1\", \"n0/2\"]", "[0, 1]"})
    EXPECT_THROW(plan_of("\"mapping\": {\"devices\": " + std::string(devices) + "}, "), UserError)
        << devices;
}

TEST(Plan, SaysWhatItsRanksNeed) {
  const auto parsed = [](const char* json) { return parse_plan(parse_json(json, "p"), "p"); };
  EXPECT_EQ(parsed(R"({"mesh": {"dp": 2}, "hardware": "gpu"})").hardware(),
            (std::vector<std::string>{"gpu", "gpu"}));
  EXPECT_EQ(parsed(R"({"mesh": {"dp": 2}})").hardware(), (std::vector<std::string>{"", ""}));
  const Plan stages = parsed(R"({"meshes": [
      {"name": "a", "mesh": {"dp": 2}, "ranks": [0, 2], "hardware": "v100-16g"},
      {"name": "b", "mesh": {}, "ranks": [1]}]})");
  EXPECT_EQ(stages.hardware(), (std::vector<std::string>{"v100-16g", "", "v100-16g"}));
  Graph graph;
  EXPECT_EQ(parse_plan(to_document(stages, graph), "p").hardware(), stages.hardware());
}

/// A plan of the stages `a` and `b` and a third mesh.
Plan with_third_mesh(const std::string& mesh) {
  return parse_plan(parse_json(R"({"meshes": [
      {"name": "a", "mesh": {"dp": 2}, "ranks": [0, 1], "hardware": "gpu", "device": "fake"},
      {"name": "b", "mesh": {"dp": 2}, "ranks": [2, 3]}, )" +
                                   mesh + "]}",
                               "p"),
                    "p");
}

TEST(Plan, AMeshHasANameAsAnAxisHas) {
  for (const char* name : {"\\u001b[2J", "a b", "1st", "a.b"}) {
    try {
      with_third_mesh(R"({"name": ")" + std::string(name) + R"(", "mesh": {}, "ranks": [4]})");
      FAIL() << name;
    } catch (const UserError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
      EXPECT_NE(error.what_happened().find("cannot name a mesh"), std::string::npos);
    }
  }
}

TEST(Plan, AViewHasTheRanksAndTheDeviceOfItsStage) {
  const Plan plan = with_third_mesh(R"({"name": "v", "mesh": {"tp": 2}, "view_of": "a"})");
  EXPECT_EQ(plan.meshes[2].mesh->ranks(), (std::vector<Rank>{0, 1}));
  EXPECT_EQ(plan.meshes[2].device, DeviceKind::kFake);
  EXPECT_EQ(plan.meshes[2].hardware, "gpu");
  EXPECT_EQ(mesh_text(plan),
            "a: dp=2 {0,1} of devices fake, b: dp=2 {2,3}, v: tp=2 {0,1} of devices fake, a view "
            "of a");
  Graph graph;
  const Plan read = parse_plan(to_document(plan, graph), "p");
  EXPECT_EQ(mesh_text(read), mesh_text(plan));
  EXPECT_EQ(with_third_mesh(R"({"name": "v", "mesh": {"tp": 2}, "ranks": [1, 0], "view_of": "a"})")
                .meshes[2]
                .mesh->ranks(),
            (std::vector<Rank>{1, 0}));
}

TEST(Plan, RefusesAViewThatIsNoneOfAStage) {
  for (const char* mesh : {
           R"({"name": "v", "mesh": {"tp": 2}, "view_of": "c"})",
           R"({"name": "v", "mesh": {"tp": 2}, "ranks": [0, 2], "view_of": "a"})",
           R"({"name": "v", "mesh": {"tp": 4}, "view_of": "a"})",
           R"({"name": "v", "mesh": {"tp": 2}, "view_of": "a", "hardware": "cpu"})",
           R"({"name": "v", "mesh": {"tp": 2}, "view_of": "b", "device": "fake"})",
           R"({"name": "v", "mesh": {"tp": 2}, "view_of": "a"},
              {"name": "w", "mesh": {"tp": 2}, "view_of": "v"})",
           R"({"name": "v", "mesh": {"tp": 2}, "view_of": "a"},
              {"name": "c", "mesh": {"tp": 2}, "ranks": [4, 5]})",
       })
    EXPECT_THROW(with_third_mesh(mesh), UserError) << mesh;
}

TEST(Plan, ARankNeedsOneKindOfDevice) {
  EXPECT_THROW(parse_plan(parse_json(R"({"meshes": [
      {"name": "a", "mesh": {}, "ranks": [0], "hardware": "gpu"},
      {"name": "b", "mesh": {}, "ranks": [0], "hardware": "cpu"}]})",
                                     "p"),
                          "p"),
               UserError);
  EXPECT_THROW(parse_plan(parse_json(R"({"hardware": "gpu", "meshes": [
      {"name": "a", "mesh": {}, "ranks": [0]}]})",
                                     "p"),
                          "p"),
               UserError);
}

}  // namespace
}  // namespace tessera
