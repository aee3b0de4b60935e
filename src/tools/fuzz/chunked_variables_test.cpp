// Variables that lie in chunks: a fused weight of q, k and v, with its optimizer states.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/lower/lower.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

/// x W is q, k and v side by side; each is read by a slice. The loss adds up (q k) v.
Graph fused_products(int64_t rows, int64_t width) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {rows, 5}});
  const ValueId w = b.variable("w", {DType::kF32, {5, 3 * width}}, Initializer::normal(0, 1));
  const ValueId all = b.dot(x, w, "mk,kn->mn", "all");
  const auto part = [&](int64_t i, const char* name) {
    return b.slice(all, {0, i * width}, {rows, (i + 1) * width}, {1, 1}, name);
  };
  const ValueId qk = b.mul(part(0, "q"), part(1, "k"), "qk");
  const ValueId loss = b.reduce_sum(b.mul(qk, part(2, "v"), "qkv"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kMomentum});
  return graph;
}

FuzzCase case_of(const std::string& mesh, const std::string& placement, int64_t rows,
                 int64_t width) {
  FuzzCase given;
  given.seed = 9;  // with its explicit shardings, too
  given.graph = fused_products(rows, width);
  given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
  given.marks = {shard_tensor("w", placement, "case")};
  given.fills["learning_rate"] = {false, 0.0001, 0.001};
  return given;
}

int exchanges_of(const FuzzCase& given, const std::string& value) {
  const Compiled made = compile(given.graph, given.meshes, given.marks);
  return static_cast<int>(
      std::count_if(made.tasks.tasks.begin(), made.tasks.tasks.end(), [&](const Task& task) {
        return task.kind == Task::Kind::kExchange &&
               made.tasks.registers[task.inputs.front()].name.text().starts_with(value);
      }));
}

TEST(ChunkedVariables, ComputeWhatTheSerialProgramComputes) {
  for (const char* mesh : {"tp=2", "tp=4", "dp=2 tp=2"})
    for (const int64_t width : {8, 6, 5})  // 5 is uneven
      for (const char* placement : {"P(None, 3*\"tp\")", "P(None, \"tp\")"}) {
        const auto failure = run_case(case_of(mesh, placement, 4, width));
        EXPECT_FALSE(failure) << mesh << " " << placement << " " << width << ": " << failure->text;
      }
}

TEST(ChunkedVariables, AndTheirStatesAreNotExchanged) {
  // In one piece, rank 0 has columns of q and k and needs its part of each of q, k and v.
  EXPECT_GT(exchanges_of(case_of("tp=2", "P(None, \"tp\")", 4, 8), "all"), 0);
  const FuzzCase in_chunks = case_of("tp=2", "P(None, 3*\"tp\")", 4, 8);
  for (const char* value : {"w", "all", "q", "k", "v"})
    EXPECT_EQ(exchanges_of(in_chunks, value), 0);
  const Compiled made = compile(in_chunks.graph, in_chunks.meshes, in_chunks.marks);
  for (const TaskVariable& variable : made.tasks.variables)
    EXPECT_EQ(to_text(made.tasks.registers[variable.value].attr), "[*, @tp/3]") << variable.name;
}

}  // namespace
}  // namespace tessera::fuzz
