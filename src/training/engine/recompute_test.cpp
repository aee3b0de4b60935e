// Activations that the backward computes again, in whole runs: the results are those of a run that
// keeps them, and it needs less memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/lower/recompute_choice.h"
#include "training/engine/testing/runs.h"

namespace tessera {
namespace {

struct RecomputeGiven {
  std::string model, plan;
  Recompute recompute;
};

Plan plan_with(const RecomputeGiven& given, const Recompute& recompute) {
  Plan plan = plan_of(given.model, given.plan);
  plan.recompute = recompute;
  if (given.model == "gpt" && given.plan.find("pp") != std::string::npos)
    plan.schedule = PipelineKind::kZeroBubbleH1;
  return plan;
}

/// Between the least that a rank can keep and everything, for "auto".
Bytes limit_of(const RecomputeGiven& given) {
  const Graph graph = training_graph(tiny_run(given.model));
  const PlacedGraph placed = placements(graph, plan_with(given, {}));
  Plan plan = plan_with(given, {Recompute::Kind::kAuto, {}, Bytes(int64_t{1} << 60)});
  const std::vector<Bytes> kept =
      decide_recompute(RecomputeRequest{placed.graph, placed.sharded, plan}).kept;
  for (const double share : {0.7, 0.8, 0.9, 0.95}) try {
      const auto largest = static_cast<double>(std::ranges::max(kept).value());
      plan.recompute.limit = Bytes(static_cast<int64_t>(share * largest));
      with_decided_recompute(graph, plan);
      return plan.recompute.limit;
    } catch (const UserError&) {  // it keeps at least more
    }
  throw InternalError("no share of what is kept can be a limit");
}

Recompute recompute_of(const RecomputeGiven& given) {
  Recompute recompute = given.recompute;
  if (recompute.kind == Recompute::Kind::kAuto) recompute.limit = limit_of(given);
  return recompute;
}

/// Its activations take far more than its parameters.
RunConfig large_batch(int64_t layers) {
  RunConfig config = tiny_run("gpt");
  config.model.layers = layers;
  config.train.batch = 256;
  return config;
}

Bytes peak_with(const Recompute& recompute, int64_t layers) {
  const RunConfig config = large_batch(layers);
  Plan plan;
  plan.recompute = recompute;
  const Compiled compiled = compile(training_graph(config), plan);
  return compiled.arenas.front().size;
}

TEST(EngineRecompute, AFurtherLayerKeepsItsOneResultUnderFull) {
  const RunConfig config = large_batch(1);
  const Bytes value(config.train.batch * config.model.context * config.model.width * 4);
  const Recompute full{Recompute::Kind::kFull};
  EXPECT_EQ(peak_with(full, 12) - peak_with(full, 11), value);
}

TEST(EngineRecompute, SelectiveIsBetweenFullAndNone) {
  const Bytes none = peak_with({}, 12);
  const Bytes selective = peak_with({Recompute::Kind::kSelective}, 12);
  const Bytes full = peak_with({Recompute::Kind::kFull}, 12);
  EXPECT_LT(selective, none);
  EXPECT_LT(full, selective);
}

// ---- auto ----

/// The largest sum of the registers that are filled by a forward task and read by a backward one,
/// from the one to the last of the others, at a rank of `mesh`.
Bytes live_saved_bytes(const TaskGraph& tasks, MeshIndex mesh) {
  std::map<TaskId, int> place;
  for (TaskId task : tasks.order) place.emplace(task, static_cast<int>(place.size()));
  std::vector<int64_t> change(place.size() + 1, 0);
  for (const Register& reg : tasks.registers) {
    if (reg.mesh != mesh || reg.producer.is_none() || reg.storage != Register::Storage::kArena ||
        tasks.tasks[reg.producer].kind == Task::Kind::kFeed ||
        tasks.tasks[reg.producer].role != Role::kForward)
      continue;
    int last = -1;
    for (TaskId consumer : reg.consumers)
      if (tasks.tasks[consumer].role == Role::kBackward) last = std::max(last, place[consumer]);
    if (last < 0) continue;
    change[place[reg.producer]] += reg.size.value();
    change[last + 1] -= reg.size.value();
  }
  int64_t now = 0, largest = 0;
  for (int64_t step : change) largest = std::max(largest, now += step);
  return Bytes(largest);
}

TEST(RecomputeAuto, KeepsWhatItDeclaresWithinTwoPercent) {
  for (const auto& [model, name] : {std::pair{"gpt", "serial"},
                                    {"gpt", "dp2-tp2"},
                                    {"llama", "serial-m4"},
                                    {"gpt", "pp2-m4"}}) {
    SCOPED_TRACE(std::string(model) + " " + name);
    RecomputeGiven given{model, name, {Recompute::Kind::kAuto}};
    RunConfig config = tiny_run(model);
    const Graph graph = training_graph(config);
    Plan plan = plan_of(model, name);
    plan.recompute = {Recompute::Kind::kAuto, {}, limit_of(given)};
    const Compiled compiled = compile(graph, plan);
    for (StageIndex stage : compiled.mesh_of_stage.indices()) {
      const Bytes live = live_saved_bytes(compiled.tasks, compiled.mesh_of_stage[stage]);
      EXPECT_LE(live.value(), 1.02 * static_cast<double>(plan.recompute.limit.value()));
    }
  }
}

TEST(RecomputeAuto, NeedsLessMemoryTheLowerItsLimit) {
  const RunConfig config = large_batch(6);
  const Graph graph = training_graph(config);
  const Bytes none = peak_with({}, 6);
  Bytes before = none;
  for (const int64_t part : {2, 3, 4}) {
    Plan plan;
    plan.recompute = {Recompute::Kind::kAuto, {}, Bytes(none.value() / part)};
    const Bytes peak = compile(graph, plan).arenas.front().size;
    EXPECT_LT(peak, before);
    before = peak;
  }
}

TEST(RecomputeAuto, RefusesALimitThatNoChoiceReachesWithTheLeast) {
  Plan plan;
  plan.recompute = {Recompute::Kind::kAuto, {}, Bytes(1)};
  try {
    compile(training_graph(tiny_run("gpt")), plan);
    FAIL() << "it was not refused";
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kNoPlan);
    EXPECT_THAT(error.what_happened(), testing::HasSubstr("a rank keeps at least"));
    EXPECT_THAT(error.fix(), testing::HasSubstr("set activation_mib to 1 or more"));
  }
}

TEST(RecomputeAuto, IsTheSameProgramWithResolvedShardings) {
  RecomputeGiven given{"gpt", "dp2-tp2", {Recompute::Kind::kAuto}};
  const Graph graph = training_graph(tiny_run("gpt"));
  const Plan plan = plan_with(given, recompute_of(given));
  EXPECT_EQ(to_text(compile(graph, with_explicit_shardings(graph, plan)).tasks),
            to_text(compile(graph, plan).tasks));
}

TEST(EngineRecompute, IsSwitchedOffWithItsPass) {
  const RunConfig config = tiny_run("gpt");
  Plan plan;
  const Graph graph = training_graph(config);
  const std::string kept = to_text(compile(graph, plan).tasks);
  plan.recompute.kind = Recompute::Kind::kFull;
  EXPECT_NE(to_text(compile(graph, plan).tasks), kept);
  plan.disabled_passes = {"recompute"};
  EXPECT_EQ(to_text(compile(graph, plan).tasks), kept);
}

}  // namespace
}  // namespace tessera
