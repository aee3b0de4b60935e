// The text form of a graph: printing and parsing.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <type_traits>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/graph/graph.h"

namespace tessera {
namespace {

std::string names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (ValueId value : values) names.push_back(graph.value(value).name);
  return join(names, ", ");
}

/// Reads one line from left to right.
class LineReader {
 public:
  LineReader(std::string_view text, int line) : rest_(text), whole_(text), line_(line) {}

  [[noreturn]] void fail(const std::string& expected) const {
    throw UserError(
        "line " + std::to_string(line_) + " of the graph is malformed: " + excerpt(whole_),
        "expected " + expected + " at '" + std::string(rest_.substr(0, 20)) + "'",
        "write the line as to_text() prints it", ExitCode::kBadData);
  }
  void skip_spaces() {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
  }
  bool accept(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("'" + std::string(token) + "'");
  }
  bool at_end() {
    skip_spaces();
    return rest_.empty();
  }
  std::string until(std::string_view stops) {
    skip_spaces();
    const size_t end = std::min(rest_.find_first_of(stops), rest_.size());
    std::string word(rest_.substr(0, end));
    if (word.empty()) fail("a word");
    rest_.remove_prefix(end);
    return word;
  }
  std::string name() {
    std::string word = until(" ,()={}[]");
    // The colon that ends a left-hand side is not part of the name; the colon of a result number
    // ("a:1") is.
    if (word.ends_with(':')) {
      word.pop_back();
      rest_ = std::string_view(rest_.data() - 1, rest_.size() + 1);
    }
    return word;
  }
  TensorType type() {
    std::string text = until("]") + "]";
    expect("]");
    try {
      return parse_tensor_type(text);
    } catch (const UserError& error) {
      fail("a tensor type (" + error.what_happened() + ")");
    }
  }
  template <typename Number>
  Number number() {
    const std::string word = until(" ,()}]");
    Number value = 0;
    const auto result = std::from_chars(word.data(), word.data() + word.size(), value);
    if (result.ec != std::errc{} || result.ptr != word.data() + word.size())
      fail(std::is_integral_v<Number> ? "an integer" : "a number");
    return value;
  }
  std::string quoted() {
    expect("\"");
    std::string text = rest_.starts_with('"') ? "" : until("\"");
    expect("\"");
    return text;
  }
  std::string tail() {
    skip_spaces();
    std::string text(rest_);
    rest_ = {};
    return text;
  }
  char peek() {
    skip_spaces();
    return rest_.empty() ? '\0' : rest_.front();
  }

 private:
  std::string_view rest_, whole_;
  int line_;
};

std::vector<int64_t> read_integers(LineReader& line) {
  std::vector<int64_t> list;
  line.expect("[");
  while (!line.accept("]")) {
    list.push_back(line.number<int64_t>());
    line.accept(",");
  }
  return list;
}

Attribute read_attribute(LineReader& line) {
  if (line.peek() == '"') return line.quoted();
  if (line.peek() == '[') return read_integers(line);
  if (line.accept("true")) return true;
  if (line.accept("false")) return false;
  const std::string word = line.until(" ,}");
  int64_t integer = 0;
  const char* end = word.data() + word.size();
  if (auto r = std::from_chars(word.data(), end, integer); r.ec == std::errc{} && r.ptr == end)
    return integer;
  double number = 0;
  if (auto r = std::from_chars(word.data(), end, number); r.ec == std::errc{} && r.ptr == end)
    return number;
  line.fail("a value");
}

Attributes read_attributes(LineReader& line) {
  Attributes attributes;
  if (!line.accept("{")) return attributes;
  while (!line.accept("}")) {
    const std::string name = line.until("=");
    line.expect("=");
    attributes.set(name, read_attribute(line));
    line.accept(",");
  }
  return attributes;
}

Initializer read_initializer(LineReader& line) {
  const std::string kind = line.until("(");
  line.expect("(");
  Initializer initializer;
  initializer.a = line.number<double>();
  if (line.accept(",")) initializer.b = line.number<double>();
  line.expect(")");
  if (kind == "normal")
    initializer.kind = Initializer::Kind::kNormal;
  else if (kind == "uniform")
    initializer.kind = Initializer::Kind::kUniform;
  else if (kind != "constant")
    line.fail("constant, normal or uniform");
  return initializer;
}

Origin read_origin(LineReader& line) {
  if (!line.accept("<-")) return {};
  Origin origin;
  origin.derivation = line.until(" ");
  if (!line.at_end()) origin.source = line.tail();
  return origin;
}

ValueId read_value(const Graph& graph, LineReader& line) {
  const std::string name = line.name();
  const auto value = graph.find_value(name);
  if (!value) line.fail("a value of a line above, not '" + name + "',");
  return *value;
}

Role read_role(LineReader& line) {
  if (!line.accept("@")) return Role::kForward;
  if (line.accept("backward")) return Role::kBackward;
  if (line.accept("optimizer")) return Role::kOptimizer;
  line.fail("backward or optimizer");
}

void read_op(Graph& graph, LineReader& line, const std::string& name,
             std::vector<GraphPtr> regions) {
  line.expect("=");
  const std::string kind = line.until("(");
  line.expect("(");
  std::vector<ValueId> inputs;
  while (!line.accept(")")) {
    inputs.push_back(read_value(graph, line));
    line.accept(",");
  }
  Attributes attributes = read_attributes(line);
  line.expect(":");
  std::vector<TensorType> outputs{line.type()};
  while (line.accept(",")) outputs.push_back(line.type());
  const Role role = read_role(line);
  Origin origin = read_origin(line);
  graph.add_op(name, kind, std::move(attributes), std::move(inputs), outputs, role,
               std::move(origin), std::move(regions));
}

void read_variable(Graph& graph, LineReader& line) {
  const std::string name = line.name();
  line.expect(":");
  const TensorType type = line.type();
  line.expect("=");
  const Initializer initializer = read_initializer(line);
  const bool state = line.accept("state");
  graph.add_variable(name, type, initializer, !state, read_origin(line));
}

void read_line(Graph& graph, LineReader& line, std::vector<GraphPtr> regions) {
  const std::string first = line.name();
  if (first == "input") {
    const std::string name = line.name();
    line.expect(":");
    graph.add_input(name, line.type());
  } else if (first == "variable") {
    read_variable(graph, line);
  } else if (first == "output") {
    const std::string name = line.name();
    line.expect("=");
    graph.add_output(name, read_value(graph, line));
  } else if (first == "next") {
    const ValueId variable = read_value(graph, line);
    line.expect("=");
    graph.set_next(variable, read_value(graph, line));
  } else {
    read_op(graph, line, first, std::move(regions));
  }
  if (!line.at_end()) line.fail("the end of the line");
}

/// Reads lines. The regions of an op follow its line.
class GraphReader {
 public:
  GraphReader(std::string_view text, OperatorSetPtr operators)
      : rows_(split_text(text, '\n')), operators_(std::move(operators)) {}

  Graph read() {
    Graph graph = read_lines(0);
    if (next_ < rows_.size()) line().fail("a line of the program, which no 'region' precedes,");
    return graph;
  }

 private:
  static constexpr int kDeepest = 100;  // regions in regions

  std::string_view row() const { return trim(rows_[next_]); }
  LineReader line() const { return {row(), static_cast<int>(next_) + 1}; }
  void skip_empty() {
    while (next_ < rows_.size() && row().empty()) ++next_;
  }
  bool at_row(std::string_view word) {
    skip_empty();
    return next_ < rows_.size() && row() == word;
  }

  /// Reads lines up to the `end` of a region, or of the text.
  Graph read_lines(int depth) {
    Graph graph(operators_);
    for (skip_empty(); next_ < rows_.size() && row() != "end"; skip_empty()) {
      LineReader first = line();
      ++next_;
      std::vector<GraphPtr> regions;
      while (at_row("region")) regions.push_back(read_region(depth + 1));
      try {
        read_line(graph, first, std::move(regions));
      } catch (const InternalError& error) {
        first.fail(std::string("a line that fits the graph (") + error.what() + ")");
      }
    }
    return graph;
  }

  GraphPtr read_region(int depth) {
    LineReader opening = line();
    if (depth > kDeepest) opening.fail("fewer regions in each other");
    ++next_;
    auto region = std::make_shared<const Graph>(read_lines(depth));
    if (!at_row("end")) opening.fail("an 'end' below");
    ++next_;
    return region;
  }

  std::vector<std::string> rows_;
  OperatorSetPtr operators_;
  size_t next_ = 0;
};

std::string to_text(const Origin& origin) {
  if (origin.derivation.empty()) return "";
  return " <- " + origin.derivation + (origin.source.empty() ? "" : " " + origin.source);
}

}  // namespace

std::string to_text(const Graph& graph, OpId id) {
  const Op& op = graph.op(id);
  std::vector<std::string> types;
  for (ValueId output : op.outputs) types.push_back(tessera::to_text(graph.type(output)));
  const std::string attributes = tessera::to_text(op.attributes);
  std::string text = op.name + " = " + op.kind + "(" + names_of(graph, op.inputs) + ")" +
                     (attributes.empty() ? "" : " " + attributes) + ": " + join(types, ", ");
  if (op.role != Role::kForward) text += " @" + std::string(tessera::to_text(op.role));
  return text + to_text(op.origin);
}

namespace {

/// The regions of an op, indented by two spaces.
std::string region_text(const Op& op) {
  std::string text;
  for (const GraphPtr& region : op.regions) {
    text += "  region\n";
    for (const std::string& row : split_text(to_text(*region), '\n'))
      if (!row.empty()) text += "    " + row + "\n";
    text += "  end\n";
  }
  return text;
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text;
  for (ValueId input : graph.inputs())
    text += "input " + graph.value(input).name + ": " + tessera::to_text(graph.type(input)) + "\n";
  for (const Variable& variable : graph.variables())
    text += "variable " + graph.value(variable.value).name + ": " +
            tessera::to_text(graph.type(variable.value)) + " = " +
            tessera::to_text(variable.initializer) + (variable.trainable ? "" : " state") +
            to_text(variable.origin) + "\n";
  for (int i = 0; i < std::ssize(graph.ops()); ++i)
    text += to_text(graph, OpId{i}) + "\n" + region_text(graph.op({i}));
  for (const auto& [name, value] : graph.outputs())
    text += "output " + name + " = " + graph.value(value).name + "\n";
  for (const Variable& variable : graph.variables())
    if (variable.next)
      text += "next " + graph.value(variable.value).name + " = " +
              graph.value(*variable.next).name + "\n";
  return text;
}

Graph parse_graph(std::string_view text, OperatorSetPtr operators) {
  return GraphReader(text, std::move(operators)).read();
}

}  // namespace tessera
