// The worked examples of docs/sharding.md that need a run.
#include <gtest/gtest.h>

#include "compiler/lower/lower.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "runtime/runtime/runtime.h"

namespace tessera {
namespace {

/// An embedding of 8 rows with table[i][j] = 10 i + j.
struct Embedding {
  static constexpr int64_t kWidth = 3;
  Graph graph;
  Compiled compiled;
  std::map<std::string, std::vector<std::vector<float>>>
      seen;  // by register, then rank: what it held

  Embedding() {
    Builder builder(graph);
    const ValueId table =
        builder.variable("table", {DType::kF32, {8, kWidth}}, Initializer::constant(0));
    const ValueId ids = builder.input("ids", {DType::kI32, {4}});
    const ValueId rows = builder.gather(table, ids, "rows");
    const ValueId weights = builder.input("weights", {DType::kF32, {4, kWidth}});
    const ValueId loss = builder.reduce_sum(builder.mul(rows, weights, "weighted"), {0, 1}, "loss");
    graph.add_output("rows", rows);
    graph.add_output("gradient", differentiate(builder, loss, {table})[0]);
    graph.set_next(table, builder.sub(table, graph.output("gradient"), "next_table"));
    const auto mesh = std::make_shared<const Mesh>(Shape{2}, std::vector<std::string>{"tp"});
    compiled = compile(graph, mesh, {shard_tensor("table", "P(\"tp\")")});
  }

  TensorMap run() {
    Runtime runtime(compiled.sharded.meshes[0].mesh);
    LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(compiled.tasks));
    runtime.initialize(program, 1);
    Tensor table(TensorType{DType::kF32, {8, kWidth}});
    for (int64_t i = 0; i < 8 * kWidth; ++i)
      table.values<float>()[i] = static_cast<float>(10 * (i / kWidth) + i % kWidth);
    runtime.set_variable("table", table);
    const Tensor ids = Tensor::of<int32_t>({4}, {0, 3, 4, 7});
    Tensor weights(TensorType{DType::kF32, {4, kWidth}});
    for (float& weight : weights.values<float>()) weight = 1;
    for (const Register& reg : compiled.tasks.registers) seen[reg.name].resize(2);
    const Observer observer = [&](Rank rank, RegisterIndex index, const Coordinate& coordinate,
                                  const std::byte* data) {
      const Register& reg = compiled.tasks.registers[index];
      const TensorType type = local_type(reg, coordinate);
      if (type.dtype != DType::kF32) return;
      const auto* values = reinterpret_cast<const float*>(data);
      seen.at(reg.name)[rank].assign(values, values + element_count(type.shape));
    };
    TensorMap results;
    runtime.run(program, {{"ids", &ids}, {"weights", &weights}}, results, &observer);
    return results;
  }
};

TEST(WorkedExample, EachRankLooksUpItsRowsOfTheEmbeddingAndTheSumIsSerial) {
  Embedding embedding;
  const TensorMap results = embedding.run();
  const auto& rows = embedding.seen.at("rows");
  // The ids are [0, 3 | 4, 7]. Rank 0 holds rows 0-3 of the table, and rank 1 holds rows 4-7, so it
  // finds them at its local rows 0 and 3.
  EXPECT_EQ(rows[0], (std::vector<float>{0, 1, 2, 30, 31, 32, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows[1], (std::vector<float>{0, 0, 0, 0, 0, 0, 40, 41, 42, 70, 71, 72}));
  const auto sum = results.at("rows").values<float>();
  EXPECT_EQ(std::vector<float>(sum.begin(), sum.end()),
            (std::vector<float>{0, 1, 2, 30, 31, 32, 40, 41, 42, 70, 71, 72}));
}

TEST(WorkedExample, TheGradientOfTheEmbeddingStaysShardedWithoutAnAllReduce) {
  Embedding embedding;
  const TensorMap results = embedding.run();
  int exchanges = 0;
  for (const Task& task : embedding.compiled.tasks.tasks) {
    if (task.kind != Task::Kind::kExchange) continue;
    ++exchanges;
    EXPECT_EQ(task.name.text().substr(0, 15), "all-reduce rows")
        << "the only exchange is the sum of the rows";
  }
  EXPECT_EQ(exchanges, 1);
  const Compiled& compiled = embedding.compiled;
  const ValueId gradient = compiled.graph.output("gradient");
  EXPECT_EQ(to_text(compiled.graph.type(gradient), compiled.sharded.at(gradient)), "f32[8@tp, 3]");
  const auto values = results.at("gradient").values<float>();
  for (int64_t row = 0; row < 8; ++row)
    EXPECT_EQ(values[row * 3], row == 0 || row == 3 || row == 4 || row == 7 ? 1 : 0)
        << "row " << row;
}

}  // namespace
}  // namespace tessera
