// Prints the examples of docs/sharding.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text/text.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/passes/collective_matmul.h"
#include "document_examples.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "ir/ops/discovery/discovery.h"
#include "ir/ops/spatial.h"
#include "observed_run.h"

namespace tessera {
namespace {

MeshPtr docs_sharding_mesh_of(std::string_view text) {
  return std::make_shared<const Mesh>(parse_mesh(text));
}
TensorType docs_sharding_f32(Shape shape) {
  return {DType::kF32, shape};
}

/// Extents as text: "2x6".
std::string extents(const Shape& shape) {
  std::vector<std::string> texts;
  for (int64_t extent : shape) texts.push_back(std::to_string(extent));
  return join(texts, "x");
}

template <typename Act>
std::string message(const Act& act) {
  try {
    act();
  } catch (const UserError& error) {
    return std::string(error.what()) + "\n";
  }
  return "nothing was refused\n";
}

// ---- placements ----

/// A 6x12 tensor of values 12 i + j on the mesh [[0,1],[2,3],[4,5]].
struct SixByTwelve {
  MeshPtr mesh = docs_sharding_mesh_of("x=3 y=2");
  Shape shape{6, 12};

  DistAttr placed(const std::vector<std::string>& spec) const { return from_spec(mesh, 2, spec); }
};

std::string boxes_text() {
  const SixByTwelve example;
  std::string text = "mesh " + to_text(*example.mesh) + ", ranks";
  for (int i = 0; i < example.mesh->size(); ++i)
    text +=
        fmt::format("{}{}", to_text(example.mesh->coordinate_at(i)).ends_with(",0") ? " | " : " ",
                    example.mesh->ranks()[i]);
  text += "\n";
  for (const auto& [written, spec] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"[None, None]", {"", ""}}, {"['x', 'y']", {"x", "y"}}, {"['y', 'x']", {"y", "x"}}}) {
    const DistAttr attr = example.placed(spec);
    text += fmt::format("\n{} = {}\n", written, to_text(docs_sharding_f32(example.shape), attr));
    for (Rank rank : example.mesh->ranks()) {
      const Coordinate at = *example.mesh->coordinate_of(rank);
      const Box box = attr.box(example.shape, at);
      const int64_t first = 12 * box.ranges[0].begin + box.ranges[1].begin,
                    last = 12 * (box.ranges[0].end - 1) + box.ranges[1].end - 1;
      text += fmt::format("  rank {} at ({})  holds {:12}  {:4}  first {:2}  last {}\n", rank,
                          to_text(at), to_text(box), extents(box.shape()), first, last);
    }
  }
  return text;
}

std::string uneven_text() {
  std::string text;
  for (const auto& [mesh_text, type_text] :
       std::vector<std::pair<std::string, std::string>>{{"dp=4", "f32[10@dp]"},
                                                        {"dp=4", "f32[2@dp]"},
                                                        {"dp=2 cp=3", "f32[10@dp@cp]"},
                                                        {"tp=2", "f32[12@tp:4]"},
                                                        {"dp=2:1", "f32[12@dp]"},
                                                        {"dp=2:1", "f32[10@dp]"},
                                                        {"tp=1:2", "f32[12@tp:4]"}}) {
    const MeshPtr mesh = docs_sharding_mesh_of(mesh_text);
    const DistType tensor = parse_dist_type(type_text, mesh);
    std::vector<std::string> boxes;
    for (Rank rank : mesh->ranks())
      boxes.push_back(to_text(tensor.attr.box(tensor.type.shape, *mesh->coordinate_of(rank))));
    text += fmt::format("{:13} on {:9}  {}\n", type_text, mesh_text, join(boxes, " "));
  }
  return text;
}

// ---- rules and signatures ----

/// A graph of one op, and the view that its operator has of it.
struct OneOp {
  Graph graph;

  OpView seen() const { return view(graph, graph.ops().back()); }
  ShardingRule rule() const { return find_operator(graph.ops().back().kind).rule(seen()); }
};

/// A(64,10) x B(10,50).
OneOp matmul() {
  OneOp one;
  Builder builder(one.graph);
  builder.dot(builder.input("A", docs_sharding_f32({64, 10})),
              builder.input("B", docs_sharding_f32({10, 50})), "mk,kn->mn", "C");
  return one;
}

std::string rules_text() {
  std::string text;
  const auto add = [&](const std::string& name, const auto& build) {
    OneOp one;
    Builder builder(one.graph);
    build(builder);
    text += fmt::format("{:12} {}\n", name, to_text(one.rule()));
  };
  add("dot_general", [](Builder& b) {
    b.dot(b.input("a", docs_sharding_f32({64, 10})), b.input("b", docs_sharding_f32({10, 50})),
          "mk,kn->mn");
  });
  add("add", [](Builder& b) {
    b.add(b.input("a", docs_sharding_f32({4, 6})), b.input("b", docs_sharding_f32({4, 6})));
  });
  add("reduce max",
      [](Builder& b) { b.reduce(ReduceOp::kMax, b.input("a", docs_sharding_f32({4, 6})), {1}); });
  add("gather", [](Builder& b) {
    b.gather(b.input("table", docs_sharding_f32({8, 3})), b.input("ids", {DType::kI32, {4}}));
  });
  add("reshape",
      [](Builder& b) { b.reshape(b.input("a", docs_sharding_f32({8, 3, 64})), {8, 192}); });
  add("attention", [](Builder& b) {
    const ValueId q = b.input("q", docs_sharding_f32({2, 6, 4, 8}));
    b.attention(q, q, q, true, 1);
  });
  add("slice",
      [](Builder& b) { b.slice(b.input("a", docs_sharding_f32({8, 8})), {0, 2}, {8, 6}, {1, 1}); });
  return text;
}

std::string discovery_text() {
  std::string text;
  const auto add = [&](const std::string& name, const auto& build) {
    OneOp one;
    Builder builder(one.graph);
    build(builder);
    text += fmt::format("{:12} {}\n", name,
                        to_text(discover(find_operator(one.graph.ops().back().kind), one.seen())));
  };
  add("dot_general", [](Builder& b) {
    const ValueId x = b.input("a", docs_sharding_f32({64, 10}));
    b.dot(x, b.input("b", docs_sharding_f32({10, 50})), "mk,kn->mn");
  });
  add("transpose",
      [](Builder& b) { b.transpose(b.input("a", docs_sharding_f32({64, 3072})), {1, 0}); });
  add("flatten", [](Builder& b) {
    b.reshape(b.input("a", docs_sharding_f32({128, 3, 32, 32})), {128, 3072});
  });
  add("gather", [](Builder& b) {
    const ValueId table = b.input("table", docs_sharding_f32({8, 3}));
    b.gather(table, b.input("ids", {DType::kI32, {4}}));
  });
  return text;
}

std::string signatures_text() {
  const OneOp one = matmul();
  std::string text;
  for (const Signature& signature : signatures(one.seen(), one.rule()))
    text += to_text(signature) + "\n";
  return text;
}

std::string refused_text() {
  const OneOp one = matmul();
  const DistAttr partial = parse_placements("Partial(sum)", docs_sharding_mesh_of("d=2"), 2);
  return message([&] { sharding_for_inputs(one.seen(), one.rule(), {partial, partial}); });
}

/// y = x w, with its placement given as parts per dim.
std::string parts_text() {
  OneOp one;
  Builder builder(one.graph);
  builder.dot(builder.input("x", docs_sharding_f32({64, 10})),
              builder.input("w", docs_sharding_f32({10, 50})), "mk,kn->mn", "y");
  const Mark mark = shard_op("y", "((4,1),(1,1))");
  const ResolvedMarks resolved = resolve_marks(one.graph, docs_sharding_mesh_of("d=4"), {mark});
  const OpSharding& sharding = resolved.ops.front().sharding;
  std::string text = "((4,1),(1,1)) on d=4\n";
  const auto line = [&](const std::string& name, const TensorType& type, const DistAttr& attr) {
    text +=
        fmt::format("  {} {:13}  {} each{}\n", name, to_text(type, attr),
                    extents(attr.largest_shape(type.shape)), attr.is_replicated() ? ", whole" : "");
  };
  for (int i = 0; i < 2; ++i)
    line(i == 0 ? "x" : "w", one.seen().inputs[i], input_attr(one.seen(), one.rule(), sharding, i));
  line("y", one.seen().outputs[0], output_attr(one.seen(), one.rule(), sharding, 0));
  return text;
}

// ---- marks and propagation ----

std::string tensor_marks_text() {
  const MeshPtr mesh = docs_sharding_mesh_of("dp=2 tp=4");
  Graph graph;
  Builder(graph).unary("tanh", Builder(graph).input("x", docs_sharding_f32({32, 8, 64})), "t");
  std::string text;
  for (const char* placement :
       {"P(\"dp\", None, \"tp\")", "Shard(0), Shard(2)", "tp: Shard(2), dp: Shard(0)", "P(\"dp\")",
        "P((\"dp\",\"tp\"))", "Shard(0), Partial(sum)"}) {
    const Mark mark = shard_tensor("t", placement);
    text += fmt::format("{:26}  {}\n", placement,
                        to_text(docs_sharding_f32({32, 8, 64}),
                                resolve_marks(graph, mesh, {mark}).values.front().attr));
  }
  return text;
}

std::string op_marks_text() {
  const OneOp one = matmul();
  std::string text;
  for (const char* placement : {"[P(\"dp\"), P(None,\"tp\")]", "[Shard(0), tp: Shard(1)]",
                                "((2,1),(1,4))", "((2,4),(4,1))"}) {
    const Mark mark = shard_op("C", placement);
    const OpSharding sharding =
        resolve_marks(one.graph, docs_sharding_mesh_of("dp=2 tp=4"), {mark}).ops.front().sharding;
    const auto input = [&](int i) {
      return to_text(input_attr(one.seen(), one.rule(), sharding, i));
    };
    text += fmt::format("{:24}  {} x {} -> {}\n", placement, input(0), input(1),
                        to_text(output_attr(one.seen(), one.rule(), sharding, 0)));
  }
  return text;
}

std::string placements_text(const Graph& graph, const ShardedGraph& sharded) {
  std::string text;
  for (int i = 0; i < static_cast<int>(graph.values().size()); ++i) {
    const std::string& reason = sharded.value_reasons[i];
    const std::string line = fmt::format("{:9} {:33}", graph.value({i}).name,
                                         to_text(graph.type({i}), sharded.at(ValueId{i})));
    text += reason.empty() ? std::string(trim(line)) + "\n" : fmt::format("{}  {}\n", line, reason);
  }
  for (const ShardingNote& note : sharded.notes) text += "note: " + note.text + "\n";
  return text;
}

/// Two layers.
Graph two_layers_with_bias() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", docs_sharding_f32({8, 16}));
  const ValueId up = b.variable("up", docs_sharding_f32({16, 32}), Initializer::constant(0));
  const ValueId bias = b.variable("bias", docs_sharding_f32({32}), Initializer::constant(0));
  const ValueId down = b.variable("down", docs_sharding_f32({32, 16}), Initializer::constant(0));
  const ValueId h = b.dot(x, up, "mk,kn->mn", "h");
  const ValueId t =
      b.unary("tanh", b.add(h, b.broadcast(bias, {8, 32}, {1}, "bias_rows"), "s"), "t");
  b.dot(t, down, "mk,kn->mn", "y");
  return graph;
}

/// One weight is marked.
ShardedGraph propagated(const Graph& graph) {
  return propagate(graph, docs_sharding_mesh_of("tp=4"),
                   {shard_tensor("up", "P(None,\"tp\")", "plan.json marks[0]")});
}

std::string propagation_text() {
  const Graph graph = two_layers_with_bias();
  return placements_text(graph, propagated(graph));
}

std::string resolved_text() {
  const Graph graph = two_layers_with_bias();
  Shardings shardings;
  shardings.sections.emplace_back(kTrainSection,
                                  to_shardings(graph, propagated(graph), kTrainSection));
  return to_json(to_document(shardings), 2) + "\n";
}

std::string notes_text() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", docs_sharding_f32({9, 8}));
  b.add(x, b.input("z", docs_sharding_f32({9, 8})), "s");
  b.reshape(x, {8, 9}, "turned");
  return placements_text(graph, propagate(graph, docs_sharding_mesh_of("tp=2"),
                                          {shard_tensor("x", "P(\"tp\")", "a.json"),
                                           shard_tensor("z", "P(None,\"tp\")", "b.json")}));
}

/// The ranges that each rank of `mesh` holds, on one line.
std::string ranges_text(const std::string& mesh, const std::string& text) {
  const DistType given = parse_dist_type(text, docs_sharding_mesh_of(mesh));
  std::string line = fmt::format("{:28} on {:4}", text, mesh);
  for (int i = 0; i < given.attr.mesh->size(); ++i)
    line += " " + to_text(given.attr.box(given.type.shape, given.attr.mesh->coordinate_at(i)));
  return line + "\n";
}

std::string chunks_text() {
  std::string text;
  for (const char* placement : {"f32[24@tp]", "f32[24@tp:8]", "f32[24@tp/3]"}) {
    const DistType given = parse_dist_type(placement, docs_sharding_mesh_of("tp=2"));
    text += fmt::format("{:13} on tp=2", placement);
    for (int i = 0; i < 2; ++i) {
      text += i == 0 ? " " : "  |";
      for (const Piece& piece : given.attr.pieces(given.type.shape, {i}))
        text += " " + to_text(piece.box);
    }
    text += "\n";
  }
  Graph graph;
  Builder b(graph);
  const ValueId t =
      b.unary("tanh", b.reshape(b.input("x", docs_sharding_f32({4, 3, 8})), {4, 24}, "flat"), "t");
  b.slice(t, {0, 8}, {4, 16}, {1, 1}, "keys");
  return text +
         placements_text(graph, propagate(graph, docs_sharding_mesh_of("tp=2"),
                                          {shard_tensor("x", "Shard(2)", "plan.json marks[0]")}));
}

std::string windows_text() {
  std::string text;
  for (const char* placement : {"f32[8@h]", "f32[8@h~8(-1:+1)]", "f32[16@h~8(*2-1:+1)]",
                                "f32[10@h~8(+1:+1)]", "f32[12@h~8(+0:+2)~10(+0:+2)]"})
    text += ranges_text("h=3", placement);
  const MeshPtr mesh = docs_sharding_mesh_of("h=3");
  const DistAttr from = parse_dist_type("f32[8@h]", mesh).attr,
                 to = parse_dist_type("f32[8@h~8(-1:+1)]", mesh).attr;
  const Exchange exchange{classify({8}, from, to), from, to};
  text += std::string(to_text(exchange.kind)) + " from " + to_text(from) + " to " + to_text(to) +
          ", as rank 1 sees it\n";
  for (const RecvRegion& recv_region : recv_regions({8}, exchange, 1))
    if (recv_region.sender != 1)
      text += fmt::format("  {:6} from rank {}\n", to_text(recv_region.box), recv_region.sender);
  return text;
}

/// Two convolutions, with both forms of halo.
std::string halos_text() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", docs_sharding_f32({1, 2, 8, 16}));
  const ValueId w1 = b.variable("w1", docs_sharding_f32({2, 2, 3, 3}), Initializer::normal(0, 1));
  const ValueId w2 = b.variable("w2", docs_sharding_f32({2, 2, 3, 3}), Initializer::normal(0, 1));
  const ValueId y1 = convolution(b, x, w1, same_places({3, 3}), "y1");
  graph.add_output("y2", convolution(b, y1, w2, same_places({3, 3}), "y2"));
  std::string text;
  for (HaloForm form : {HaloForm::kExchange, HaloForm::kRecompute}) {
    const Compiled made = compile(graph, Plan{.meshes = one_mesh(docs_sharding_mesh_of("h=2")),
                                              .halos = form,
                                              .marks = {shard_tensor("x", "Shard(2)")}});
    text += (form == HaloForm::kExchange ? "exchanged: y1 is " : "computed: y1 is ") +
            to_text(graph.type(y1), made.sharded.at(*made.graph.find_value("y1"))) + "\n";
    for (const Task& task : made.tasks.tasks) {
      for (size_t part = 0; part < task.parts.size(); ++part) {
        const Register& target = made.tasks.registers[task.outputs[part]];
        const int64_t elements =
            received_elements(target.type->shape, {task.parts[part].exchange}, 0);
        text += fmt::format("  rank 0 receives {} bytes for {}\n",
                            elements * size_of(target.type->dtype), target.name.text());
      }
    }
  }
  return text;
}

std::string partial_text() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", docs_sharding_f32({8, 16}));
  const ValueId p = b.dot(x, b.input("w", docs_sharding_f32({16, 4})), "mk,kn->mn", "p");
  const ValueId q = b.dot(x, b.input("v", docs_sharding_f32({16, 4})), "mk,kn->mn", "q");
  b.unary("tanh", b.add(p, q, "s"), "t");
  return to_text(partition(graph, propagate(graph, docs_sharding_mesh_of("tp=2"),
                                            {shard_tensor("x", "P(None,\"tp\")")})));
}

// ---- time ----

std::string time_text() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", docs_sharding_f32({8, 4}));
  const ValueId w = b.variable("w", docs_sharding_f32({4, 3}), Initializer::normal(0, 1));
  const ValueId y = b.dot(x, w, "mk,kn->mn", "y");
  graph.add_output("sum", b.reduce_sum(y, {0}, "sum"));
  const MeshPtr mesh = docs_sharding_mesh_of("dp=2");
  const Compiled compiled = compile(graph, Plan{.meshes = one_mesh(mesh),
                                                .micro_batches = 2,
                                                .marks = {shard_tensor("x", "P(\"dp\")")}});
  return print_placements(compiled.graph, compiled.sharded) + "rank 0\n" +
         rank_text(compiled.tasks, 0);
}

// ---- reshard ----

std::string reshard_text() {
  const SixByTwelve example;
  const auto exchanges = plan_reshard(docs_sharding_f32(example.shape), example.placed({"x", "y"}),
                                      example.placed({"y", "x"}));
  std::string text = "elements received:";
  for (Rank rank : example.mesh->ranks())
    text += fmt::format("{} {}", rank == 0 ? "" : ",",
                        received_elements(example.shape, exchanges, rank));
  text += "\n";
  for (const Exchange& exchange : exchanges) {
    text += fmt::format("{} {} -> {}, as rank 1 sees it\n", to_text(exchange.kind),
                        to_text(exchange.from), to_text(exchange.to));
    for (const RecvRegion& recv_region : recv_regions(example.shape, exchange, 1))
      text += fmt::format(
          "  {:12} from {}\n", to_text(recv_region.box),
          recv_region.sender == 1 ? "itself" : "rank " + std::to_string(recv_region.sender));
  }
  return text;
}

std::string collectives_text() {
  const MeshPtr mesh = docs_sharding_mesh_of("tp=4");
  std::string text;
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"f32[64@tp, 100]", "f32[64, 100]"},
           {"f32[64, 100]", "f32[64@tp, 100]"},
           {"f32[64@tp, 100]", "f32[64, 100@tp]"},
           {"f32[64, 100] {partial sum: tp}", "f32[64@tp, 100]"},
           {"f32[64, 100] {partial sum: tp}", "f32[64, 100]"}}) {
    const DistType a = parse_dist_type(from, mesh), b = parse_dist_type(to, mesh);
    const auto exchanges = plan_reshard(a.type, a.attr, b.attr);
    std::vector<std::string> ways;
    for (const Exchange& exchange : exchanges) ways.emplace_back(to_text(exchange.kind));
    text += fmt::format("{:30} -> {:15}  {:14} {:4} elements received", from, to,
                        to_text(classify(a.type.shape, a.attr, b.attr)),
                        received_elements(a.type.shape, exchanges, 0));
    text += ways.size() > 1 ? ", by " + join(ways, " and ") + "\n" : "\n";
  }
  return text;
}

// ---- whole programs ----

/// Y0 = X B0, Y1 = Y0 B1 and the gradients of B0 and B1.
Graph two_matmuls() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("X", docs_sharding_f32({8, 6}));
  const ValueId b0 = b.variable("B0", docs_sharding_f32({6, 4}), Initializer::normal(0, 1));
  const ValueId b1 = b.variable("B1", docs_sharding_f32({4, 10}), Initializer::normal(0, 1));
  const ValueId y0 = b.dot(x, b0, "mk,kn->mn", "Y0");
  const ValueId y1 = b.dot(y0, b1, "mk,kn->mn", "Y1");
  const ValueId loss =
      b.reduce_sum(b.mul(y1, b.input("R", docs_sharding_f32({8, 10})), "weighted"), {0, 1}, "loss");
  const std::vector<ValueId> gradients = differentiate(b, loss, {b0, b1});
  graph.add_output("dB0", gradients[0]);
  graph.add_output("dB1", gradients[1]);
  return graph;
}

std::string all_reduce_text() {
  const MeshPtr mesh = std::make_shared<const Mesh>(parse_mesh("node=2 gpu=4"));
  const DistType from = parse_dist_type("f32[64, 100] {partial sum: node, gpu}", mesh),
                 to = parse_dist_type("f32[64, 100]", mesh);
  std::string text;
  for (const AllReduceAlgorithm form :
       {AllReduceAlgorithm::kOneShot, AllReduceAlgorithm::kReduceScatterAllGather,
        AllReduceAlgorithm::kHierarchical}) {
    const auto exchanges = plan_reshard(from.type, from.attr, to.attr, {.all_reduce = form});
    text += fmt::format("{}\n ", to_text(form));
    for (size_t i = 0; i < exchanges.size(); ++i)
      text += fmt::format("{} {} to {}", i > 0 ? ", then" : "", to_text(exchanges[i].kind),
                          to_text(exchanges[i].to));
    int64_t between_nodes = 0;
    for (const Exchange& exchange : exchanges)
      for (const RecvRegion& recv_region : recv_regions(from.type.shape, exchange, 0))
        if (recv_region.sender >= 4) between_nodes += element_count(recv_region.box.shape());
    text += fmt::format("\n  rank 0 receives {} elements, {} of them from the other node\n",
                        received_elements(from.type.shape, exchanges, 0), between_nodes);
  }
  return text;
}

std::string two_matmuls_text() {
  const Graph graph = two_matmuls();
  const Program program = partition(graph, propagate(graph, docs_sharding_mesh_of("d=2"),
                                                     {shard_op("Y0", "[P(\"d\"), P()]"),
                                                      shard_op("Y1", "[P(), P(None,\"d\")]")}));
  const auto line = [&](const std::string& symbol, const std::string& name) {
    std::string made, exchanges;
    for (const RegisterForm& reg : program.registers)
      if (reg.name == name) made = to_text(reg.type, reg.attr);
    for (const Instruction& i : program.instructions)
      if (const ExchangeStep* step = i.exchange();
          step && program.registers[step->source()].name == name)
        exchanges += std::string(to_text(step->kind())) + " to " + to_text(step->exchange().to);
    return fmt::format("  {:4} {:30}  {}\n", symbol, made,
                       exchanges.empty() ? "no exchange" : exchanges);
  };
  return "forward\n" + line("Y0", "Y0") + line("Y1", "Y1") + "backward\n" +
         line("dB1", "Y1.grad.b") + line("dY0", "Y1.grad.a") + line("dB0", "Y0.grad.b");
}

/// Rows 0, 3, 4 and 7 of a table of 8 rows that is sharded over two ranks. table[i][j] = 10 i + j,
/// and every row counts once in the loss.
struct Embedding {
  static constexpr int64_t kWidth = 3;
  Graph graph;
  Compiled compiled;

  Embedding() {
    Builder builder(graph);
    const ValueId table =
        builder.variable("table", docs_sharding_f32({8, kWidth}), Initializer::constant(0));
    const ValueId rows = builder.gather(table, builder.input("ids", {DType::kI32, {4}}), "rows");
    const ValueId loss = builder.reduce_sum(
        builder.mul(rows, builder.input("weights", docs_sharding_f32({4, kWidth})), "weighted"),
        {0, 1}, "loss");
    graph.add_output("rows", rows);
    graph.add_output("gradient", differentiate(builder, loss, {table})[0]);
    graph.set_next(table, builder.sub(table, graph.output("gradient"), "next_table"));
    compiled = compile(graph, docs_sharding_mesh_of("tp=2"), {shard_tensor("table", "P(\"tp\")")});
  }

  HeldByRank run() const {
    Runtime runtime(compiled.sharded.meshes[0].mesh);
    LoadedProgram& program = runtime.load(std::make_shared<const TaskGraph>(compiled.tasks));
    runtime.initialize(program, 1);
    Tensor table(docs_sharding_f32({8, kWidth})), weights(docs_sharding_f32({4, kWidth}));
    for (int64_t i = 0; i < table.size(); ++i)
      table.values<float>()[i] = static_cast<float>(10 * (i / kWidth) + i % kWidth);
    for (float& weight : weights.values<float>()) weight = 1;
    runtime.set_variable("table", table);
    const Tensor ids = Tensor::of<int32_t>({4}, {0, 3, 4, 7});
    return run_observed(runtime, program, {{"ids", &ids}, {"weights", &weights}}).held;
  }
};

std::string embedding_text() {
  const Embedding embedding;
  const HeldByRank held = embedding.run();
  std::string text;
  const std::string gradient = embedding.graph.value(embedding.graph.output("gradient")).name;
  for (const std::string& name :
       {std::string("table"), std::string("rows"), std::string("rows [*, *]"), gradient})
    for (const Register& reg : embedding.compiled.tasks.registers) {
      if (reg.name != name) continue;
      text += fmt::format("{} {}\n", name, to_text(reg.type, reg.attr));
      for (int rank = 0; rank < 2; ++rank)
        text += fmt::format("  rank {}  {}\n", rank, values_text(held.at(name)[rank]));
    }
  text += "exchanges\n";
  for (const Task& task : embedding.compiled.tasks.tasks)
    if (task.kind == Task::Kind::kExchange)
      text += "  " + task.name + ": " + task.parts[0].reason + "\n";
  return text;
}

// ---- collective matmul ----

/// A column-parallel layer, then a row-parallel one, between values that are sharded by rows.
std::string collective_matmul_text() {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", docs_sharding_f32({8, 4}));
  const ValueId up = b.variable("up", docs_sharding_f32({4, 32}), Initializer::normal(0, 1));
  const ValueId down = b.variable("down", docs_sharding_f32({32, 16}), Initializer::normal(0, 1));
  const ValueId t = b.unary("tanh", b.dot(x, up, "mk,kn->mn", "u"), "t");
  b.unary("tanh", b.dot(t, down, "mk,kn->mn", "d"), "y");
  const std::vector<Mark> marks = {shard_tensor("{x,y}", "P(\"tp\")"),
                                   shard_tensor("up", "P(None, \"tp\")"),
                                   shard_tensor("down", "P(\"tp\")")};
  Program program = partition(graph, propagate(graph, docs_sharding_mesh_of("tp=2"), marks));
  decompose_collective_matmuls(program, 2, {});
  std::string text;
  for (const std::string& line : split_text(to_text(program), '\n'))
    if (line.find(" = ") != std::string::npos) text += line.substr(0, line.find(" <- ")) + "\n";
  return text;
}

TEST(ShardingPage, ShowsWhatTheProgramPrints) {
  expect_examples(
      "docs/sharding.md",
      {{"boxes", boxes_text, {"rank 3 at (1,1)  holds [2:4, 6:12]   2x6   first 30  last 47"}},
       {"uneven", uneven_text},
       {"rules", rules_text},
       {"signatures",
        signatures_text,
        {"(S0,B)->S0\n(B,S1)->S1\n(S1,S0)->P\n(B,B)->B\n(P,B)->P\n(B,P)->P\n"}},
       {"refused", refused_text, {"'C': its inputs are partial sums on axis 'd'"}},
       {"tensor-marks", tensor_marks_text},
       {"op-marks", op_marks_text},
       {"parts", parts_text, {"x f32[64@d, 10]  16x10 each", "w f32[10, 50]    10x50 each, whole"}},
       {"propagation", propagation_text},
       {"notes", notes_text},
       {"windows", windows_text},
       {"halos", halos_text},
       {"chunks", chunks_text},
       {"partial-sums", partial_text},
       {"reshard", reshard_text, {"elements received: 4, 12, 10, 10, 12, 4\n"}},
       {"collectives", collectives_text},
       {"all-reduce", all_reduce_text},
       {"two-matmuls",
        two_matmuls_text,
        {"Y0   f32[8@d, 4]                     all-gather to",
         "dY0  f32[8, 4] {partial sum: d}      reduce-scatter to",
         "dB0  f32[6, 4] {partial sum: d}      all-reduce to",
         "dB1  f32[4, 10@d]                    no exchange"}},
       {"time",
        time_text,
        {"y f32[8@mb@dp, 3]\n", "binary.add(sum #0, sum #1)", "all-reduce(sum)"}},
       {"embedding",
        embedding_text,
        {"rank 0  0 1 2 | 30 31 32 | 0 0 0 | 0 0 0\n",
         "rank 1  0 0 0 | 0 0 0 | 40 41 42 | 70 71 72\n", "rows.grad.table f32[8@tp, 3]\n",
         "exchanges\n  all-reduce rows [*, *]"}},
       {"discovery", discovery_text},
       {"collective-matmul",
        collective_matmul_text,
        {"u chunk 1 of 2 = dot_general(x [*, *] chunk 1 of 2, up): f32[4, 32@tp]\n",
         "d [@tp, *] chunk 0 of 2 = reduce-scatter(d chunk 0 of 2): f32[4@tp, 16]\n"}},
       {"resolved", resolved_text}});
}

}  // namespace
}  // namespace tessera
