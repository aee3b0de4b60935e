// Stages and micro-batches in what compile() makes: who holds what for how long, and what crosses
// from mesh to mesh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/testing/tensor_types.h"
#include "base/text/text.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"

namespace tessera {
namespace {

NamedMesh device(const std::string& name, Rank rank) {
  return {name, std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"dp"},
                                             std::vector<Rank>{rank})};
}

constexpr int kStages = 4;
constexpr int64_t kPipelinesRows = 512, kPipelinesWidth = 16, kLayersOfAStage = 6;

/// Layers of a product and a tanh, with a loss and an update; a quarter of them is a stage.
Graph pipelines_layers() {
  Graph graph;
  Builder b(graph);
  ValueId h = b.unary("abs", b.input("x", f32({kPipelinesRows, kPipelinesWidth})), "stage.0.first");
  std::vector<ValueId> weights;
  for (int layer = 0; layer < kStages * kLayersOfAStage; ++layer) {
    const auto scope = b.scope("stage." + std::to_string(layer / kLayersOfAStage) + ".layer." +
                               std::to_string(layer % kLayersOfAStage));
    weights.push_back(
        b.variable("w", f32({kPipelinesWidth, kPipelinesWidth}), Initializer::normal(0, 1)));
    h = b.unary("tanh", b.dot(h, weights.back(), "mk,kn->mn", "dot"), "tanh");
  }
  const ValueId loss = b.reduce_sum(h, {0, 1}, "loss");
  graph.add_output("loss", loss);
  const auto gradients = differentiate(b, loss, weights);
  for (size_t i = 0; i < weights.size(); ++i)
    graph.set_next(weights[i], b.sub(weights[i], b.mul_scalar(gradients[i], 0.1)));
  return graph;
}

Compiled four_stages(int64_t micro_batches, PipelineKind schedule, int64_t max_in_flight = 0) {
  Meshes meshes;
  std::vector<Mark> marks;
  for (int s = 0; s < kStages; ++s) {
    const std::string name = "stage" + std::to_string(s);
    meshes.push_back(device(name, s));
    marks.push_back(stage("stage." + std::to_string(s) + ".*", name));
  }
  return compile(pipelines_layers(), Plan{.meshes = meshes,
                                          .micro_batches = micro_batches,
                                          .schedule = schedule,
                                          .max_in_flight = max_in_flight,
                                          .marks = marks});
}

/// What a stage keeps from forward to backward: the most of it at any time of a step.
struct Kept {
  int64_t micro_batches = 0;
  int64_t bytes = 0;
};

/// Is it made in the forward of a micro-batch and read in the backward?
bool is_kept_for_backward(const TaskGraph& graph, const Register& reg) {
  if (reg.producer.is_none()) return false;
  const Task& producer = graph.tasks[reg.producer];
  return producer.role == Role::kForward && producer.micro_batch >= 0 &&
         std::any_of(reg.consumers.begin(), reg.consumers.end(),
                     [&](TaskId id) { return graph.tasks[id].role == Role::kBackward; });
}

Kept max_kept(const TaskGraph& graph, MeshIndex mesh) {
  IndexedVector<TaskId, size_t> place(graph.tasks.size());
  for (size_t i = 0; i < graph.order.size(); ++i) place[graph.order[i]] = i;
  Kept largest;
  for (size_t now = 0; now < graph.order.size(); ++now) {
    std::set<int> micro_batches;
    int64_t bytes = 0;
    for (const Register& reg : graph.registers) {
      if (reg.mesh != mesh || !is_kept_for_backward(graph, reg) || place[reg.producer] > now)
        continue;
      if (std::none_of(reg.consumers.begin(), reg.consumers.end(),
                       [&](TaskId id) { return place[id] >= now; }))
        continue;
      micro_batches.insert(reg.micro_batch.index);
      bytes += reg.size.value();
    }
    largest.micro_batches =
        std::max(largest.micro_batches, static_cast<int64_t>(micro_batches.size()));
    largest.bytes = std::max(largest.bytes, bytes);
  }
  return largest;
}

struct KeptByStage {
  std::vector<int64_t> micro_batches, bytes, arena;
};

KeptByStage kept_under(int64_t micro_batches, PipelineKind schedule) {
  const Compiled compiled = four_stages(micro_batches, schedule);
  KeptByStage kept;
  for (int s = 0; s < kStages; ++s) {
    const Kept largest = max_kept(compiled.tasks, MeshIndex(s));
    kept.micro_batches.push_back(largest.micro_batches);
    kept.bytes.push_back(largest.bytes);
    kept.arena.push_back(compiled.tasks.arenas[MeshIndex(s)].value());
  }
  return kept;
}

int64_t sum(const std::vector<int64_t>& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0});
}

/// The words of a rank's order list that are `pass` of a micro-batch, each followed by a space.
std::string words_of(const Compiled& compiled, Rank rank, char pass) {
  std::string found;
  for (const std::string& word : split_text(rank_order_text(compiled.tasks, rank), ' '))
    if (word.size() > 1 && word.front() == pass) found += word + " ";
  return found;
}

TEST(Pipelines, AutoKeepsNoMoreMicroBatchesThanItMay) {
  for (const int64_t limit : {1, 2, 3}) {
    const Compiled compiled = four_stages(8, PipelineKind::kAuto, limit);
    for (int s = 0; s < kStages; ++s)
      EXPECT_LE(max_kept(compiled.tasks, MeshIndex(s)).micro_batches, limit) << "stage " << s;
  }
  const Compiled as_usual = four_stages(8, PipelineKind::kAuto),
                 as_said = four_stages(8, PipelineKind::kAuto, kStages);
  EXPECT_EQ(rank_order_text(as_usual.tasks, 0), rank_order_text(as_said.tasks, 0))
      << "unsaid, it is the number of devices";
}

/// Two stages of two ranks; the second layer of the first stage is on another mesh of its ranks.
Compiled with_second_mesh(const std::string& view_of) {
  const auto pair = [](const std::string& name, const std::string& axis, Rank first) {
    return NamedMesh{name, std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{axis},
                                                        std::vector<Rank>{first, first + 1})};
  };
  Meshes meshes = {pair("first", "dp", 0), pair("last", "dp", 2), pair("wide", "tp", 0)};
  meshes[2].view_of = view_of;
  std::vector<Mark> marks = {stage("stage.{0,1}.*", "first"), stage("stage.{2,3}.*", "last"),
                             stage("stage.0.layer.1.*", "wide"), shard_tensor("x", "P(\"dp\")"),
                             shard_tensor("stage.0.layer.1.w", "P(None, \"tp\")")};
  return compile(pipelines_layers(),
                 Plan{.meshes = meshes, .micro_batches = 4, .marks = std::move(marks)},
                 {.dump = {}, .verify_passes = true});
}

TEST(Pipelines, AViewIsNoStageOfItsOwn) {
  const Compiled compiled = with_second_mesh("first");
  ASSERT_TRUE(compiled.pipeline);
  EXPECT_EQ(compiled.pipeline->shape.stages.size(), 2u);
  EXPECT_EQ(words_of(compiled, 0, 'F'), "F0 F1 F2 F3 ");
  EXPECT_EQ(words_of(compiled, 0, 'B'), "B0 B1 B2 B3 ");
  const auto tasks_of = [&](int mesh) {
    return std::ranges::count_if(compiled.tasks.tasks, [&](const Task& task) {
      return task.mesh == MeshIndex(mesh) && task.kind == Task::Kind::kCompute && task.pass;
    });
  };
  EXPECT_GE(tasks_of(2), 8) << "a forward and a backward of each micro-batch run on it";
}

TEST(Pipelines, AStageMayNotNeedALaterOneThatNeedsIt) {
  // Without `view_of` the layers before and after it are one stage, and it is another.
  EXPECT_THROW(with_second_mesh(""), UserError);
}

TEST(Pipelines, TasksSayWhichPassOfTheScheduleTheyBelongTo) {
  const Compiled split = four_stages(4, PipelineKind::kZeroBubbleH1),
                 whole = four_stages(4, PipelineKind::kOneForwardOneBackward);
  for (Rank rank = 0; rank < kStages; ++rank) {
    for (const char pass : {'F', 'B', 'W'}) {
      const std::string each = {pass, '0', ' ', pass, '1', ' ', pass, '2', ' ', pass, '3', ' '};
      EXPECT_EQ(words_of(split, rank, pass), each) << "rank " << rank;
      EXPECT_EQ(words_of(whole, rank, pass), pass == 'W' ? "" : each)
          << "rank " << rank << ": the backward is in one piece";
    }
  }
}

TEST(Pipelines, OneForwardOneBackwardKeepsMinOfMAndPMinusSMicroBatches) {
  for (int64_t m : {2, 4, 8}) {
    const KeptByStage alternating = kept_under(m, PipelineKind::kOneForwardOneBackward),
                      all_first = kept_under(m, PipelineKind::kForwardThenBackward);
    for (int s = 0; s < kStages; ++s) {
      EXPECT_EQ(alternating.micro_batches[s], std::min<int64_t>(m, kStages - s))
          << "m=" << m << " stage " << s;
      EXPECT_EQ(all_first.micro_batches[s], m) << "m=" << m << " stage " << s;
      // Each micro-batch keeps as many bytes.
      EXPECT_EQ(alternating.bytes[s] * m, all_first.bytes[s] * alternating.micro_batches[s]);
    }
  }
}

// The arena also has the step's input, what kernels work on, and, under 1F1B at its fullest, the
// gradients added up so far, which F-then-B begins when it is at its fullest. A stage goes on while
// the next one takes what it made: under 1F1B that comes on top, under F-then-B it is kept anyway.
constexpr int64_t kGradientsOfAStage = kLayersOfAStage * kPipelinesWidth * kPipelinesWidth * 4;
constexpr int64_t on_its_way(int64_t micro_batches) {
  return kPipelinesRows / micro_batches * kPipelinesWidth * 4;
}

TEST(Pipelines, OneForwardOneBackwardKeepsThreeEighthsLessOfFourMicroBatches) {
  const KeptByStage one = kept_under(4, PipelineKind::kOneForwardOneBackward),
                    all = kept_under(4, PipelineKind::kForwardThenBackward);
  EXPECT_EQ(sum(one.micro_batches), 4 + 3 + 2 + 1);
  EXPECT_EQ(sum(all.micro_batches), 16);
  EXPECT_EQ(sum(one.bytes) * 16, sum(all.bytes) * 10);
  EXPECT_GE(sum(all.arena) - sum(one.arena), sum(all.bytes) - sum(one.bytes) -
                                                 kStages * kGradientsOfAStage -
                                                 (kStages - 1) * on_its_way(4));
}

TEST(Pipelines, OneForwardOneBackwardKeepsHalfOfEightMicroBatchesAtTheFullestStage) {
  const KeptByStage one = kept_under(8, PipelineKind::kOneForwardOneBackward),
                    all = kept_under(8, PipelineKind::kForwardThenBackward);
  EXPECT_EQ(*std::max_element(one.bytes.begin(), one.bytes.end()), one.bytes[0]);
  EXPECT_EQ(one.bytes[0] * 2, all.bytes[0]);
  EXPECT_GE(all.arena[0] - one.arena[0],
            all.bytes[0] - one.bytes[0] - kGradientsOfAStage - on_its_way(8));
}

int pipelines_exchanges(const TaskGraph& graph) {
  return static_cast<int>(
      std::count_if(graph.tasks.begin(), graph.tasks.end(),
                    [](const Task& task) { return task.kind == Task::Kind::kExchange; }));
}

TEST(Pipelines, ThreeOpsOnTwoDevicesNeedOneCopy) {
  Graph graph;
  Builder b(graph);
  const ValueId y = b.unary("tanh", b.unary("exp", b.input("x", f32({8})), "one"), "two");
  graph.add_output("z", b.unary("abs", y, "three"));
  const Compiled compiled = compile(graph, Meshes{device("zero", 0), device("one", 1)},
                                    {stage("one", "zero"), stage("three", "one")});
  EXPECT_EQ(pipelines_exchanges(compiled.tasks), 1);
}

TEST(Pipelines, AnInputIsFedOnEveryMeshThatWantsIt) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8}));
  graph.add_output("y", b.unary("exp", x, "one"));
  graph.add_output("z", b.unary("abs", x, "two"));
  const Compiled compiled = compile(graph, Meshes{device("zero", 0), device("one", 1)},
                                    {stage("one", "zero"), stage("two", "one")});
  EXPECT_EQ(pipelines_exchanges(compiled.tasks), 0);
  EXPECT_EQ(compiled.tasks.inputs.size(), 2u);
}

TEST(Pipelines, MicroBatchesThatDoNotDivideTheBatchAreRefused) {
  try {
    four_stages(7, PipelineKind::kOneForwardOneBackward);
    FAIL() << "7 micro-batches of 512 rows were taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "7 micro-batches do not divide the batch of 512 rows\n  why: each micro-batch has "
                 "as many rows\n"
                 "  fix: set micro_batches to one of 1, 2, 4, 8, 16, 32, 64, 128, 256, 512");
  }
}

// ---- a parameter with two uses, on two stages ----

/// Rows of a table, changed on the way, against all rows of the same table: the head of a language
/// model that is tied to its embedding.
Graph tied() {
  Graph graph;
  Builder b(graph);
  const ValueId ids = b.input("ids", {DType::kI32, {8}});
  const ValueId table = b.variable("table", f32({10, 4}), Initializer::normal(0, 1));
  const ValueId rows = b.unary("tanh", b.gather(table, ids, "rows"), "first");
  const ValueId logits = b.dot(b.unary("tanh", rows, "last"), table, "be,ve->bv", "logits");
  const ValueId loss = b.reduce_sum(b.unary("square", logits, "squares"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  return graph;
}

TEST(Pipelines, ATiedWeightTravelsOnceAStepAndSoDoesItsGradient) {
  for (int64_t m : {1, 2, 4}) {
    const Compiled compiled =
        compile(tied(), Plan{.meshes = {device("zero", 0), device("one", 1)},
                             .micro_batches = m,
                             .marks = {stage("rows", "zero"), stage("last", "one")}});
    std::vector<std::string> travelling;
    for (const Task& task : compiled.tasks.tasks)
      for (size_t part = 0; part < task.parts.size(); ++part)
        travelling.push_back(compiled.tasks.registers[task.inputs[part]].name);
    std::vector<std::string> expected = {"table", "logits.grad.b"};
    for (int64_t i = 0; i < m; ++i)
      for (const std::string name : {"first", "last.grad.x"})
        expected.push_back(m == 1 ? name : name + " #" + std::to_string(i));
    EXPECT_THAT(travelling, testing::UnorderedElementsAreArray(expected)) << "m=" << m;
  }
}

TEST(Pipelines, GradientsOfSeveralUsesAreSummedBeforeTheyTravel) {
  Graph graph;
  Builder b(graph);
  const ValueId w = b.variable("w", f32({8}), Initializer::constant(1));
  const ValueId y = b.unary("tanh", w, "y");
  const ValueId left = b.unary("tanh", y, "left"), right = b.unary("square", y, "right");
  const ValueId loss = b.reduce_sum(b.add(left, right, "both"), {0}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kSgd});
  const Compiled compiled = compile(graph, Meshes{device("zero", 0), device("one", 1)},
                                    {stage("y", "zero"), stage("left", "one")});
  EXPECT_EQ(pipelines_exchanges(compiled.tasks), 2);  // y there, its gradient back
}

// ---- scalars that all meshes read ----

/// Two layers, one a stage, trained by AdamW with decay: the rate, the epsilon and the decay are
/// scalars of the step and the learning rate.
Graph two_layers_with_adamw() {
  Graph graph;
  Builder b(graph);
  ValueId y = b.input("x", f32({8, 4}));
  for (const std::string name : {"one", "two"}) {
    const ValueId w = b.variable(name + ".w", f32({4, 4}), Initializer::normal(0, 1));
    y = b.dot(y, w, "mk,kn->mn", name);
  }
  const ValueId loss = b.reduce_sum(y, {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kAdamW, .weight_decay = 0.1});
  return graph;
}

TEST(Pipelines, ScalarsOfTheOptimizerAreComputedOnEveryMeshThatReadsThem) {
  const Graph graph = two_layers_with_adamw();
  for (int64_t m : {1, 2}) {
    const Compiled compiled =
        compile(graph, Plan{.meshes = {device("zero", 0), device("one", 1)},
                            .micro_batches = m,
                            .marks = {stage("one", "zero"), stage("two", "one")}});
    // y of the first layer there and its gradient back, for each micro-batch
    EXPECT_EQ(pipelines_exchanges(compiled.tasks), 2 * m);
    for (const char* name : {"optimizer.rate", "optimizer.epsilon", "optimizer.decay"}) {
      std::vector<MeshIndex> meshes;
      for (const Task& task : compiled.tasks.tasks)
        for (const KernelStep& step : task.steps)
          if (step.op == name) meshes.push_back(task.mesh);
      EXPECT_THAT(meshes, testing::UnorderedElementsAre(MeshIndex(0), MeshIndex(1))) << name;
    }
  }
}

// ---- marks on ops of the backward ----

/// The mesh that runs `op` of micro-batch 0, or once a step.
MeshIndex mesh_that_runs(const TaskGraph& tasks, std::string_view op) {
  for (const Task& task : tasks.tasks)
    for (const KernelStep& step : task.steps)
      if (step.op == op) return task.mesh;
  return {};
}

TEST(Pipelines, AnOpOfTheBackwardRunsOnTheMeshOfItsMark) {
  const std::vector<Mark> stages = {stage("one", "zero"), stage("two", "one")};
  for (int64_t m : {1, 2}) {
    Plan plan{.meshes = {device("zero", 0), device("one", 1)}, .micro_batches = m, .marks = stages};
    EXPECT_EQ(mesh_that_runs(compile(two_layers_with_adamw(), plan).tasks, "two.grad.b"),
              MeshIndex(1));
    plan.marks.push_back(stage("two.grad.b", "zero"));
    EXPECT_EQ(mesh_that_runs(compile(two_layers_with_adamw(), plan).tasks, "two.grad.b"),
              MeshIndex(0));
  }
}

}  // namespace
}  // namespace tessera
