// Networks whose best placements are known from the literature, or by the arithmetic beside them.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster/cluster_file.h"
#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/ops/builder.h"
#include "planner/search/internal/sources/fixed_degrees.h"
#include "planner/search/internal/sources/part_weights.h"
#include "planner/search/sources/placement_source.h"
#include "sharding/explicit/explicit_shardings.h"
#include "sharding/reshard/recv_regions.h"
#include "simulator/step/deployment.h"

namespace tessera {
namespace {

/// The result of a search on one mesh, with the program that is compiled from it.
struct Searched {
  PlacementResult result;
  Graph graph;
  TaskGraph tasks;

  std::string canonical_placement(std::string_view name) const {
    return to_text(result.sharded.at(*graph.find_value(name)));
  }
  /// Where the op makes its first result.
  std::string made(std::string_view name) const {
    const OpId op = graph.value(*graph.find_value(name)).producer;
    const OpView op_view = view(graph, graph.op(op));
    return to_text(output_attr(op_view, result.sharded.rules[op.index], result.sharded.at(op), 0));
  }
};

/// Devices that multiply at `flops`, on links of `bytes` a second.
CostModel model_of(double flops, double bytes) {
  CostModel cost;
  cost.device.flops_per_second = flops;
  cost.device.bytes_per_second = 7e11;
  cost.device.copied_bytes_per_second = 7e11;
  cost.links.any = {Seconds(1e-9), bytes};
  return cost;
}

Searched searched(const Graph& graph, std::string_view mesh_text, const CostModel& cost,
                  const std::vector<Mark>& marks = {}, std::optional<Bytes> limit = {}) {
  const auto mesh = std::make_shared<const Mesh>(parse_mesh(mesh_text));
  Plan plan;
  plan.meshes = one_mesh(mesh);
  plan.cost = cost;
  const PlacedGraph placed = placements(graph, plan);
  PlacementSearchOptions options;
  options.problem.constraints = constraints_of_marks(placed.graph, mesh, marks);
  options.memory_limit = limit;
  std::optional<PlacementResult> result = search_placements(placed.graph, mesh, cost, options);
  EXPECT_TRUE(result.has_value());
  plan.shardings.emplace().sections.emplace_back(
      kTrainSection, to_shardings(placed.graph, result->sharded, kTrainSection));
  TaskGraph tasks = compile(graph, plan).tasks;
  return {std::move(*result), placed.graph, std::move(tasks)};
}

/// The values below `scope` that exchanges of a role sum ("+"), gather or move, each once and in
/// order: what is gathered after its sum was made in parts is one all-reduce.
std::vector<std::string> exchanged(const TaskGraph& tasks, Role role, const std::string& scope) {
  std::vector<std::string> list;
  for (TaskId id : tasks.tasks.indices()) {
    const Task& task = tasks.tasks[id];
    if (task.kind != Task::Kind::kExchange || task.role != role) continue;
    for (size_t i = 0; i < task.parts.size(); ++i) {
      const Exchange& exchange = task.parts[i].exchange;
      std::string name = tasks.registers[task.outputs[i]].name;
      name = name.substr(0, name.find(' '));
      if (!name.starts_with(scope) || exchange.kind == ReshardKind::kSlice) continue;
      const bool is_sum = !resolved_axes(exchange.from, exchange.to).empty();
      if (is_sum || !std::ranges::count(list, name + " +"))
        list.push_back(name + (is_sum ? " +" : ""));
    }
  }
  return list;
}

Graph known_answers_gpt(int64_t rows, int64_t context, int64_t vocabulary) {
  const Network network = network_of({.kind = "gpt",
                                      .vocabulary = vocabulary,
                                      .context = context,
                                      .layers = 3,
                                      .width = 256,
                                      .heads = 8,
                                      .dropout = 0});
  return training_graph(network, {}, rows, 1);
}

/// The bytes of values below `scope`, but of variables, that rank 0 receives in exchanges of a
/// role.
int64_t received(const Searched& found, Role role, const std::string& scope) {
  int64_t bytes = 0;
  for (TaskId id : found.tasks.tasks.indices()) {
    const Task& task = found.tasks.tasks[id];
    if (task.kind != Task::Kind::kExchange || task.role != role) continue;
    for (size_t i = 0; i < task.parts.size(); ++i) {
      const Register& made = found.tasks.registers[task.outputs[i]];
      const TensorType& type = made.type;
      std::string name = made.name;
      name = name.substr(0, name.find(' '));
      if (!name.starts_with(scope) || found.graph.variable_of(*found.graph.find_value(name)))
        continue;
      for (const RecvElements& received :
           recv_elements(type.shape, task.parts[i].exchange, Rank(0)))
        if (received.sender != 0) bytes += received.count * size_of(type.dtype);
    }
  }
  return bytes;
}

// Three tokens: neither rows nor positions can be divided by four. What is left are the columns of
// q, k, v and of the first product and the rows of the last ones (Megatron, arXiv 1909.08053): a
// layer sums twice in the forward, after out and after down, and twice in the backward, before up
// and before q, k, v. Each is a sum of f32[1,3,256], of which a rank receives three quarters twice:
// the parts to add up, and those that others added up. In between the columns may stay divided.
TEST(KnownResult, OfFewTokensIsTensorParallelismWithTwoSumsALayerInEachPass) {
  const Searched found = searched(known_answers_gpt(1, 3, 512), "tp=4", model_of(1e12, 1e11));
  EXPECT_EQ(found.canonical_placement("blocks.1.attn.q.weight"), "[*, @tp, *]");
  EXPECT_EQ(found.canonical_placement("blocks.1.attn.k.weight"), "[*, @tp, *]");
  EXPECT_EQ(found.canonical_placement("blocks.1.attn.v.weight"), "[*, @tp, *]");
  EXPECT_EQ(found.canonical_placement("blocks.1.attn.out.weight"), "[@tp, *, *]");
  EXPECT_EQ(found.canonical_placement("blocks.1.ffn.up.weight"), "[*, @tp]");
  EXPECT_EQ(found.canonical_placement("blocks.1.ffn.down.weight"), "[@tp, *]");
  constexpr int64_t kSum = 2 * 3 * 3 * 256 * 4 / 4;
  EXPECT_GT(received(found, Role::kForward, "blocks.1."), 0);
  EXPECT_LE(received(found, Role::kForward, "blocks.1."), 2 * kSum);
  EXPECT_GT(received(found, Role::kBackward, "blocks.1."), 0);
  EXPECT_LE(received(found, Role::kBackward, "blocks.1."), 2 * kSum);
}

/// A layer of attention whose queries, keys and values are the result of one product, f32[1,3,256]
/// each, with a training step.
Graph fused_attention() {
  Graph graph;
  Builder builder(graph);
  const auto weight = [&](std::string_view name, const Shape& shape) {
    return builder.variable(name, {DType::kF32, shape}, Initializer::normal(0, 0.02));
  };
  const ValueId x = builder.input("x", {DType::kF32, {1, 3, 256}});
  const ValueId fused = builder.dot(x, weight("qkv.weight", {256, 768}), "bse,en->bsn", "qkv.dot");
  const auto heads = [&](int64_t index, const std::string& name) {
    const ValueId part =
        builder.slice(fused, {0, 0, 256 * index}, {1, 3, 256 * (index + 1)}, {1, 1, 1}, name);
    return builder.reshape(part, {1, 3, 8, 32}, name + ".heads");
  };
  const Builder::Attention mix =
      builder.attention(heads(0, "q"), heads(1, "k"), heads(2, "v"), true, 0.17, "mix");
  const ValueId joined = builder.reshape(mix.out, {1, 3, 256}, "joined");
  const ValueId out = builder.dot(joined, weight("out.weight", {256, 256}), "bse,en->bsn", "out");
  const ValueId loss = builder.reduce_sum(builder.unary("square", out, "error"), {0, 1, 2}, "loss");
  graph.add_output("loss", loss);
  add_training(builder, loss, {});
  return graph;
}

// A rank has a quarter of the columns of q, of k and of v: two heads of each. In plain parts of the
// 768 columns the first ranks would have all of q and none of v.
TEST(KnownResult, OfAFusedProductOfQueriesKeysAndValuesDividesThemInChunks) {
  const Searched found = searched(fused_attention(), "tp=4", model_of(1e12, 1e9),
                                  {shard_tensor("out.weight", "P(\"tp\")")});
  EXPECT_EQ(found.canonical_placement("qkv.weight"), "[*, @tp/3]");
  EXPECT_EQ(found.canonical_placement("qkv.weight.exp_avg"), "[*, @tp/3]");
  for (Role role : {Role::kForward, Role::kBackward, Role::kOptimizer})
    for (const char* scope : {"qkv.", "q", "k", "v"})
      EXPECT_EQ(exchanged(found.tasks, role, scope), std::vector<std::string>{}) << scope;
}

// The gate and the values of a gated unit in one product: two chunks.
TEST(KnownResult, OfAFusedProductOfGateAndValuesDividesThemInChunks) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {1, 3, 256}});
  const ValueId w =
      builder.variable("gate_up.weight", {DType::kF32, {256, 1024}}, Initializer::normal(0, 0.02));
  const ValueId fused = builder.dot(x, w, "bse,en->bsn", "gate_up.dot");
  const ValueId gate = builder.slice(fused, {0, 0, 0}, {1, 3, 512}, {1, 1, 1}, "gate");
  const ValueId up = builder.slice(fused, {0, 0, 512}, {1, 3, 1024}, {1, 1, 1}, "up");
  const ValueId down =
      builder.variable("down.weight", {DType::kF32, {512, 256}}, Initializer::normal(0, 0.02));
  const ValueId out =
      builder.dot(builder.mul(builder.unary("tanh", gate), up), down, "bsn,ne->bse", "out");
  const ValueId loss = builder.reduce_sum(builder.unary("square", out, "error"), {0, 1, 2}, "loss");
  graph.add_output("loss", loss);
  add_training(builder, loss, {});
  const Searched found =
      searched(graph, "tp=4", model_of(1e12, 1e9), {shard_tensor("down.weight", "P(\"tp\")")});
  EXPECT_EQ(found.canonical_placement("gate_up.weight"), "[*, @tp/2]");
  for (Role role : {Role::kForward, Role::kBackward, Role::kOptimizer})
    for (const char* scope : {"gate", "up"})
      EXPECT_EQ(exchanged(found.tasks, role, scope), std::vector<std::string>{}) << scope;
}

// The logits of 16384 words are not gathered: the loss sums maxima, exponentials and the picked
// logit over the parts of the vocabulary, 12 bytes each. The table of the embedding is divided,
// too, and three rows of it are exchanged; no gradient of it is.
TEST(KnownResult, OfALargeVocabularyDividesTheHeadAndTheLossByIt) {
  const Searched found = searched(known_answers_gpt(1, 3, 16384), "tp=4", model_of(1e12, 1e12));
  EXPECT_EQ(found.canonical_placement("head.weight"), "[*, @tp]");
  EXPECT_NE(found.canonical_placement("tokens.weight"), "[*, *]");
  EXPECT_EQ(exchanged(found.tasks, Role::kOptimizer, "tokens."), std::vector<std::string>{});
  EXPECT_EQ(exchanged(found.tasks, Role::kForward, "loss."),
            (std::vector<std::string>{"loss.max +", "loss.sum +", "loss.picked +"}));
  EXPECT_EQ(exchanged(found.tasks, Role::kForward, "head."), std::vector<std::string>{});
}

// Under the marks of tensor parallelism, activations of 512 positions beside small weights: where
// the memory does not hold whole residuals, they are divided by positions, and sums end in parts
// that the next product gathers (arXiv 2205.05198). That is twice as many messages, so that on
// links of a high latency it is done for want of memory only.
TEST(KnownResult, OfTensorParallelismInLittleMemoryDividesTheResidualsByPositions) {
  const std::vector<Mark> weights = {
      shard_tensor("*.attn.{q,k,v}.weight", "P(None, \"tp\")"),
      shard_tensor("*.attn.out.weight", "P(\"tp\")"),
      shard_tensor("*.ffn.up.weight", "P(None, \"tp\")"),
      shard_tensor("*.ffn.down.weight", "P(\"tp\")"),
      shard_op("blocks.*.ffn.up.dot", "[P(), P(None, \"tp\")]"),
      shard_op("blocks.*.ffn.down.dot", "[P(None, None, \"tp\"), P(\"tp\")]"),
      shard_op("blocks.*.attn.{q,k,v}.dot", "[P(), P(None, \"tp\")]"),
      shard_op("blocks.*.attn.out.dot", "[P(None, None, \"tp\"), P(\"tp\")]")};
  const Graph graph = known_answers_gpt(1, 512, 512);
  CostModel cost = model_of(1e12, 1e12);
  cost.links.any.latency = Seconds(1e-5);
  const Searched free = searched(graph, "tp=4", cost, weights);
  const Searched limited =
      searched(graph, "tp=4", cost, weights, Bytes(free.result.counted_memory.value() * 7 / 10));
  EXPECT_EQ(free.made("blocks.1.residual1"), "[*, *, *]");
  EXPECT_EQ(limited.made("blocks.1.residual1"), "[*, @tp, *]");
  EXPECT_EQ(limited.made("blocks.1.residual2"), "[*, @tp, *]");
}

// A table of 65536 x 256 with AdamW has 268 MB of state; four rows of a batch are a few KB. To
// divide the batch is to sum the gradient of the table, or to update all of it on every rank.
TEST(KnownResult, OfAWideTableDividesTheTableAndNotTheBatch) {
  const Network network = network_of({.kind = "mlp",
                                      .vocabulary = 65536,
                                      .context = 4,
                                      .layers = 1,
                                      .width = 16,
                                      .embedding = 256,
                                      .dropout = 0});
  const Searched found = searched(training_graph(network, {}, 4, 1), "x=4", model_of(1e12, 1e9));
  EXPECT_NE(found.canonical_placement("tokens.weight"), "[*, *]");
  EXPECT_EQ(found.canonical_placement("tokens"), "[*, *]");
  EXPECT_EQ(exchanged(found.tasks, Role::kOptimizer, "tokens."), std::vector<std::string>{});
}

// Early images are large and weights small (32x32 by 16 channels, 2304 elements); late ones are
// small (8x8 by 64 channels, 36864 elements a weight).
TEST(KnownResult, OfAResnetDividesImagesEarlyAndMayDivideChannelsLate) {
  const Network network =
      network_of({.kind = "resnet", .image = {3, 32, 32}, .dropout = 0, .depth = 20});
  const Searched found = searched(training_graph(network, {}, 8, 1), "x=4", model_of(1e13, 1e10));
  for (const std::string name : {"conv1.conv", "layer1.0.conv1.conv", "layer1.2.conv2.conv"}) {
    const std::string made = found.made(name);
    EXPECT_TRUE(made.starts_with("[@x, *") || made.starts_with("[*, *, @x")) << name << made;
  }
  EXPECT_NE(found.made("layer3.2.conv2.conv"), "[*, *, *, *]");
}

// 4096 rows by weights of some thousand elements: the sum of gradients is 0.2 MB, the kernels take
// 20 ms. All of it is divided by rows, and the optimizer in parts of the weights: as many bytes are
// exchanged as where every rank updates all of them (Rajbhandari et al. 2020, stage 1).
TEST(KnownResult, OfALargeBatchThroughSmallLayersIsDataParallel) {
  const Network network = network_of({.kind = "mlp",
                                      .vocabulary = 256,
                                      .context = 4,
                                      .layers = 2,
                                      .width = 64,
                                      .embedding = 32,
                                      .dropout = 0});
  const Searched found = searched(training_graph(network, {}, 4096, 1), "x=4", model_of(1e10, 1e9));
  EXPECT_EQ(found.canonical_placement("tokens"), "[@x, *]");
  for (const std::string name : {"hidden.0.dot", "hidden.1.dot", "head.dot"})
    EXPECT_EQ(found.made(name), "[@x, *]") << name;
  // Except for weights the loss and the number of its rows are all that is exchanged before the
  // gradients.
  std::vector<std::string> forward = exchanged(found.tasks, Role::kForward, "");
  std::erase_if(forward, [&](const std::string& name) {
    const std::optional<ValueId> value = found.graph.find_value(name);
    return value && found.graph.variable_of(*value);
  });
  EXPECT_EQ(forward, (std::vector<std::string>{"loss.count +", "loss.total +"}));
  EXPECT_EQ(exchanged(found.tasks, Role::kBackward, ""), std::vector<std::string>{});
}

TEST(Weights, AreSmallNumbersInTheProportionsOfTheSpeeds) {
  EXPECT_EQ(weights_of({2e12, 1e12}), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(weights_of({3, 2}), (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(weights_of({5, 5, 5}), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(weights_of({1, 2.49, 1}), (std::vector<int64_t>{2, 5, 2}));
}

/// Two machines of a device each; the device of the first one is twice as fast.
Cluster fast_and_slow() {
  ClusterDescription description = parse_cluster_line("1xv100+1xa100").description();
  EXPECT_EQ(description.types.size(), 2);
  for (DeviceType& type : description.types) {
    const bool is_first = type.name == description.machines.front().device;
    type.cost = {};
    type.cost.flops_per_second = is_first ? 2e9 : 1e9;
    type.cost.bytes_per_second = is_first ? 2e9 : 1e9;
  }
  return Cluster(description);
}

// The compute-bound network above: a division in two halves takes as long as a half on the slow
// device, one in shares of 2:1 a third.
TEST(KnownResult, OfDevicesOfSpeeds2To1GivesThemSharesOf2To1) {
  const Network network = network_of({.kind = "mlp",
                                      .vocabulary = 64,
                                      .context = 4,
                                      .layers = 2,
                                      .width = 64,
                                      .embedding = 32,
                                      .dropout = 0});
  const Graph graph = training_graph(network, {}, 1536, 1);
  const Cluster cluster = fast_and_slow();
  const PlanSearchResult result =
      find_plan({graph, cluster}, {.constraints = constraints_of(2, false)});
  ASSERT_TRUE(result.best);
  const EvaluatedCandidate& best = result.candidates[*result.best];
  EXPECT_EQ(best.candidate.source, Candidate::Source::kSearch);
  const MeshPtr& mesh = best.candidate.plan.meshes.front().mesh;
  EXPECT_EQ(to_text(*mesh), "x=2:1");
  const PlacedGraph placed = placements(graph, best.candidate.plan);
  const ValueId tokens = *find_value(placed, "tokens");
  const DistAttr& canonical_placement = placed.sharded.at(tokens);
  EXPECT_EQ(
      canonical_placement.local_shape(placed.graph.type(tokens).shape, mesh->coordinate_at(0))[0],
      1024);
  EXPECT_EQ(
      canonical_placement.local_shape(placed.graph.type(tokens).shape, mesh->coordinate_at(1))[0],
      512);
}

}  // namespace
}  // namespace tessera
