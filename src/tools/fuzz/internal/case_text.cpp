// The text form of a case, and the data that it samples.
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/text/text.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

[[noreturn]] void refuse(std::string_view line, const std::string& expected) {
  throw UserError("the case has a malformed line: " + excerpt(line), "expected " + expected,
                  "write it as a failing case is printed", ExitCode::kBadData);
}

/// Removes the first word from `rest` and returns it.
std::string take_word(std::string_view& rest) {
  rest = trim(rest);
  const size_t end = std::min(rest.find(' '), rest.size());
  std::string word(rest.substr(0, end));
  rest.remove_prefix(end);
  return word;
}

template <typename Number>
Number take_number(std::string_view line, std::string_view& rest) {
  const std::string word = take_word(rest);
  Number value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size())
    refuse(line, "a number at '" + excerpt(word) + "'");
  return value;
}

Fill read_fill(std::string_view line, std::string_view& rest) {
  Fill fill;
  const std::string kind = take_word(rest);
  if (kind != "whole" && kind != "real") refuse(line, "'whole' or 'real'");
  fill.whole = kind == "whole";
  fill.low = take_number<double>(line, rest);
  fill.high = take_number<double>(line, rest);
  return fill;
}

Mark read_mark(std::string_view line, std::string_view& rest) {
  const std::string kind = take_word(rest);
  const std::string pattern = take_word(rest);
  const std::string placement(trim(rest));
  if (kind == "tensor") return shard_tensor(pattern, placement, "case");
  if (kind == "op") return shard_op(pattern, placement, "case");
  refuse(line, "'tensor' or 'op'");
}

/// `first x=2 y=3 at 4` has ranks 4 to 9; with `... at 4 on fake` each of them computes on a fake
/// device. `other x=6 at 4 of first` is another view of the stage `first`.
NamedMesh read_mesh(std::string_view line, std::string_view& rest) {
  const std::string name = take_word(rest);
  const size_t at = rest.rfind(" at ");
  if (at == std::string_view::npos)
    refuse(line, "a name, axes and the first rank: all x=2 y=2 at 0");
  const Mesh shape = parse_mesh(rest.substr(0, at));
  rest.remove_prefix(at + 4);
  const Rank first = take_number<Rank>(line, rest);
  constexpr Rank kLastFirst = 1 << 20;
  if (first < 0 || first > kLastFirst) refuse(line, "a first rank from 0 to 1048576");
  NamedMesh mesh{name, consecutive_mesh(shape, first)};
  while (!trim(rest).empty()) {
    const std::string word = take_word(rest);
    if (word == "of")
      mesh.view_of = take_word(rest);
    else if (word == "on")
      mesh.device = parse_device_kind(take_word(rest));
    else
      refuse(line, "'of' and a stage, or 'on' and a kind of device");
  }
  return mesh;
}

Mark read_stage(std::string_view line, std::string_view& rest) {
  const std::string kind = take_word(rest);
  const std::string pattern = take_word(rest);
  if (kind != "tensor" && kind != "op") refuse(line, "'tensor' or 'op'");
  return {kind == "op" ? Mark::Kind::kOp : Mark::Kind::kTensor, pattern, "", "case",
          take_word(rest)};
}

std::string line_of(const NamedMesh& named) {
  std::vector<std::string> axes;
  for (int axis = 0; axis < named.mesh->axis_count(); ++axis)
    axes.push_back(axis_text(*named.mesh, axis));
  return "mesh " + named.name + " " + join(axes, " ") + " at " +
         std::to_string(named.mesh->ranks().front()) +
         (named.view_of.empty() ? "" : " of " + named.view_of) +
         (named.device == DeviceKind::kHost ? "" : " on " + std::string(to_text(named.device))) +
         "\n";
}

std::string line_of(const Mark& mark) {
  const std::string what =
      std::string(mark.kind == Mark::Kind::kTensor ? "tensor " : "op ") + mark.pattern + " ";
  if (mark.copies)
    return "copies " + mark.pattern + (*mark.copies == ReplicaLifetime::kStep ? " step\n" : "\n");
  return mark.mesh.empty() ? "mark " + what + mark.placement + "\n"
                           : "stage " + what + mark.mesh + "\n";
}

void read_line(std::string_view line, FuzzCase& result) {
  std::string_view rest = line;
  const std::string word = take_word(rest);
  if (word == "seed") {
    result.seed = take_number<uint64_t>(line, rest);
  } else if (word == "mode") {
    result.exact = take_word(rest) == "exact";
  } else if (word == "micro_batches") {
    result.micro_batches = take_number<int64_t>(line, rest);
  } else if (word == "schedule") {
    result.schedule = parse_pipeline_kind(take_word(rest));
  } else if (word == "chunks") {
    result.chunks = take_number<int64_t>(line, rest);
  } else if (word == "levels") {
    const std::string text = take_word(rest);
    const size_t equals = std::min(text.find('='), text.size());
    std::string_view sizes = std::string_view(text).substr(std::min(equals + 1, text.size()));
    for (const std::string& size : split_text(sizes, ':')) {
      std::string_view number = size;
      result.levels[text.substr(0, equals)].push_back(take_number<int64_t>(line, number));
    }
  } else if (word == "passes") {
    while (!trim(rest).empty()) result.passes.push_back(take_word(rest));
  } else if (word == "steps") {
    result.steps = take_number<int64_t>(line, rest);
  } else if (word == "mesh") {
    result.meshes.push_back(read_mesh(line, rest));
  } else if (word == "stage") {
    result.marks.push_back(read_stage(line, rest));
  } else if (word == "copies") {
    const std::string name = take_word(rest);
    const bool for_step = trim(rest) == to_text(ReplicaLifetime::kStep);
    result.marks.push_back(
        copies_live_for(for_step ? ReplicaLifetime::kStep : ReplicaLifetime::kPass, name, "case"));
  } else if (word == "fill") {
    const std::string name = take_word(rest);
    result.fills[name] = read_fill(line, rest);
  } else if (word == "mark") {
    result.marks.push_back(read_mark(line, rest));
  } else {
    refuse(line,
           "seed, mode, steps, micro_batches, schedule, chunks, levels, passes, mesh, fill, stage, "
           "mark or "
           "graph");
  }
}

double element(const Fill& fill, DType dtype, double uniform) {
  if (dtype == DType::kBool) return uniform < 0.5 ? 0 : 1;
  if (fill.whole || dtype == DType::kI32)
    return std::floor(fill.low + (fill.high - fill.low + 1) * uniform);
  return fill.low + (fill.high - fill.low) * uniform;
}

}  // namespace

MeshPtr consecutive_mesh(const Mesh& shape, Rank first) {
  std::vector<Rank> ranks;
  for (Rank rank = first; rank < first + shape.size(); ++rank) ranks.push_back(rank);
  return std::make_shared<const Mesh>(shape.shape(), shape.axes(), std::move(ranks),
                                      shape.weights());
}

std::string to_text(const FuzzCase& given) {
  std::string text = "seed " + std::to_string(given.seed) + "\nmode " +
                     (given.exact ? "exact" : "general") + "\nsteps " +
                     std::to_string(given.steps) + "\n";
  if (given.micro_batches > 1)
    text += "micro_batches " + std::to_string(given.micro_batches) + "\n";
  if (given.schedule != PipelineKind::kOneForwardOneBackward)
    text += "schedule " + std::string(to_text(given.schedule)) + "\n";
  if (given.chunks > 1) text += "chunks " + std::to_string(given.chunks) + "\n";
  for (const auto& [axis, sizes] : given.levels) {
    text += "levels " + axis;
    for (size_t i = 0; i < sizes.size(); ++i)
      text += (i == 0 ? "=" : ":") + std::to_string(sizes[i]);
    text += "\n";
  }
  if (!given.passes.empty()) text += "passes " + join(given.passes, " ") + "\n";
  for (const NamedMesh& mesh : given.meshes) text += line_of(mesh);
  for (const auto& [name, fill] : given.fills)
    text += "fill " + name + (fill.whole ? " whole " : " real ") + double_text(fill.low) + " " +
            double_text(fill.high) + "\n";
  for (const Mark& mark : given.marks) text += line_of(mark);
  return text + "graph\n" + tessera::to_text(given.graph);
}

FuzzCase parse_case(std::string_view text) {
  FuzzCase result;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line == "graph") {
      if (result.meshes.empty()) refuse(line, "a mesh before the graph");
      result.graph = parse_graph(text);
      return result;
    }
    if (!line.empty()) read_line(line, result);
  }
  refuse("", "a line 'graph' and the graph");
}

Tensor sampled(const FuzzCase& given, const std::string& name, const TensorType& type,
               int64_t step) {
  const auto found = given.fills.find(name);
  const Fill fill = found == given.fills.end() ? Fill{} : found->second;
  const RandomStream stream(random_key(given.seed, name), static_cast<uint64_t>(step));
  ReferenceTensor tensor{type, {}};
  for (int64_t i = 0; i < element_count(type.shape); ++i)
    tensor.values.push_back(element(fill, type.dtype, stream.uniform(static_cast<uint64_t>(i))));
  return from_reference(tensor);
}

}  // namespace tessera::fuzz
