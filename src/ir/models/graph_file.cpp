#include "ir/models/graph_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/config_table.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "ir/models/internal/graph_rows.h"
#include "ir/ops/check_ops.h"

namespace tessera {
namespace {

constexpr std::string_view kFirstLine = "tessera graph 1";
constexpr std::string_view kAnyVersion = "tessera graph ";
constexpr ForwardPurpose kPurposes[] = {ForwardPurpose::kTraining, ForwardPurpose::kEvaluation,
                                        ForwardPurpose::kPrediction, ForwardPurpose::kDecoding};
constexpr double kLargestExtent = 1e15;

/// The graph that the function of the network writes.
Graph written(const Network& network, ForwardPurpose purpose, int64_t rows) {
  Graph graph(network.operators);
  Builder builder(graph);
  Forward forward(network, purpose, rows, builder);
  network.forward(forward);
  return graph;
}

std::string section(const Network& network, ForwardPurpose purpose) {
  std::array<std::string, 3> texts;
  for (size_t i = 0; i < texts.size(); ++i)
    texts[i] = to_text(written(network, purpose, kRowsToCompare[i]));
  return fmt::format(
      "== {}\n{}", to_text(purpose),
      text_for_any_rows(texts, network.name + " for " + std::string(to_text(purpose))));
}

/// A number of the known tokens that is start + slope * used from `used` tokens on.
struct Line {
  int64_t used, start, slope;
};
constexpr size_t kMaxLines = 16;

int64_t number_at(const std::vector<Line>& lines, int64_t used) {
  const Line* last = &lines.front();
  for (const Line& line : lines)
    if (line.used <= used) last = &line;
  return last->start + last->slope * used;
}

/// The lines of `number` of the next token.
std::vector<Line> lines_of(const Network& network, int64_t NextToken::* number) {
  const LanguageModel& language = *network.language;
  const auto at = [&](int64_t used) { return language.next_token(used).*number; };
  std::vector<Line> lines;
  for (int64_t used = 1; used <= language.context; ++used) {
    if (!lines.empty() && number_at(lines, used) == at(used)) continue;
    const int64_t slope = used < language.context ? at(used + 1) - at(used) : 0;
    lines.push_back({used, at(used) - slope * used, slope});
    if (lines.size() > kMaxLines)
      throw UserError(network.name + " cannot be written as a graph file",
                      "the positions of its predictions are not piecewise linear in the number of "
                      "known tokens",
                      "leave out Network::language", ExitCode::kBadData);
  }
  return lines;
}

Document to_document(const std::vector<Line>& lines) {
  Document::List list;
  for (const Line& line : lines) list.push_back(Document::List{line.used, line.start, line.slope});
  return list;
}

Document to_document(const Network& network, const GraphSizes& sizes) {
  Document header;
  const auto set = [&](const char* key, const std::string& text) {
    if (!text.empty()) header[key] = text;
  };
  const auto set_size = [&](const char* key, int64_t size) {
    if (size > 0) header[key] = size;
  };
  set("name", network.name);
  set("learns", network.learns);
  set("loss", network.loss);
  set("count", network.count);
  if (network.loss_is_entropy) header["loss_is_entropy"] = true;
  set("targets", network.targets);
  if (network.ignored_target) header["ignored_target"] = int64_t{*network.ignored_target};
  set_size("context", sizes.context);
  set_size("vocabulary", sizes.vocabulary);
  set_size("classes", sizes.classes);
  if (sizes.image.channels > 0)
    header["image"] = Document::List{sizes.image.channels, sizes.image.rows, sizes.image.columns};
  if (!network.trained.empty())
    header["trained"] = Document::List(network.trained.begin(), network.trained.end());
  if (network.lora.rank > 0) {
    Document& lora = header["lora"];
    lora["rank"] = network.lora.rank;
    lora["alpha"] = network.lora.alpha;
    lora["targets"] = Document::List(network.lora.targets.begin(), network.lora.targets.end());
  }
  if (network.language) {
    Document& language = header["language"];
    language["context"] = network.language->context;
    language["can_decode"] = network.language->can_decode;
    if (network.language->next_token) {
      language["first"] = to_document(lines_of(network, &NextToken::first));
      language["row"] = to_document(lines_of(network, &NextToken::row));
    }
  }
  for (const Metric& metric : network.metrics) {
    Document entry;
    entry["name"] = metric.name;
    entry["sum"] = metric.sum;
    if (!metric.count.empty()) entry["count"] = metric.count;
    if (!metric.unit.empty()) entry["unit"] = metric.unit;
    header["metrics"].append(std::move(entry));
  }
  for (const ParameterGroup& group : network.groups) {
    Document entry;
    entry["pattern"] = group.pattern;
    entry["rate"] = group.rate;
    if (group.weight_decay) entry["weight_decay"] = *group.weight_decay;
    header["groups"].append(std::move(entry));
  }
  return header;
}

int64_t size_in(ConfigTable& table, const char* key) {
  return table.integer(key, 0, 0, static_cast<int64_t>(kLargestExtent));
}

/// The entries of a list of tables.
std::vector<ConfigTable> tables_in(ConfigTable& header, const std::string& key) {
  std::vector<ConfigTable> tables;
  const Document* list = header.raw(key);
  if (!list) return tables;
  if (!list->is_list())
    throw UserError(header.file() + ": " + key + " is " + kind_of(*list), "it is a list of tables",
                    "write each entry below [[" + key + "]]", ExitCode::kBadData);
  for (size_t i = 0; i < list->as_list().size(); ++i)
    tables.push_back(header.inside(list->as_list()[i], fmt::format("{}[{}]", key, i), key + "[]"));
  return tables;
}

/// Three integers in a list.
std::array<int64_t, 3> three_integers(const Document& list, const std::string& where) {
  std::array<int64_t, 3> numbers = {};
  const auto is_size = [](const Document& number) {
    return number.is_int() && std::abs(number.as_double()) < kLargestExtent;
  };
  if (!list.is_list() || list.as_list().size() != numbers.size() ||
      !std::ranges::all_of(list.as_list(), is_size))
    throw UserError(where + " is " + excerpt(to_json(list)), "it has lists of three integers",
                    "write such a list", ExitCode::kBadData);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = list.as_list()[i].as_int();
  return numbers;
}

std::vector<Line> lines_in(ConfigTable& table, const std::string& key) {
  std::vector<Line> lines;
  const Document* list = table.raw(key);
  if (list && list->is_list() && list->as_list().size() <= kMaxLines)
    for (const Document& entry : list->as_list()) {
      const auto [used, start, slope] =
          three_integers(entry, table.file() + ": " + table.full(key));
      lines.push_back({used, start, slope});
    }
  if (lines.empty())
    throw UserError(table.file() + ": " + table.full(key) + " is " +
                        (list ? excerpt(to_json(*list)) : "missing"),
                    fmt::format("it is a list of 1 to {} lists [used, start, slope]", kMaxLines),
                    "write [[1, -1, 1]] where token i + 1 is predicted at position i",
                    ExitCode::kBadData);
  return lines;
}

LanguageModel read_language(ConfigTable table) {
  LanguageModel language;
  language.context = table.integer("context", 1, 1, 1 << 24);
  language.can_decode = table.boolean("can_decode", false);
  const bool predicts = table.has("row");
  if (predicts)
    language.next_token = [first = lines_in(table, "first"),
                           row = lines_in(table, "row")](int64_t used) {
      return NextToken{number_at(first, used), number_at(row, used)};
    };
  table.finish();
  return language;
}

Lora read_lora(ConfigTable table) {
  Lora lora;
  lora.rank = table.integer("rank", 0, 0, 1 << 20);
  lora.alpha = table.number("alpha", lora.alpha, 1e-6, 1e6);
  lora.targets = table.texts("targets", lora.targets);
  table.finish();
  return lora;
}

void read_header(ConfigTable header, GraphModel& model) {
  Network& network = model.network;
  network.name = header.text("name", network.name);
  network.learns = header.text("learns", "");
  network.loss = header.text("loss", network.loss);
  network.count = header.text("count", "");
  network.loss_is_entropy = header.boolean("loss_is_entropy", false);
  network.targets = header.text("targets", "");
  if (header.has("ignored_target"))
    network.ignored_target =
        static_cast<int32_t>(header.integer("ignored_target", -1, INT32_MIN, INT32_MAX));
  model.sizes.context = size_in(header, "context");
  model.sizes.vocabulary = size_in(header, "vocabulary");
  model.sizes.classes = size_in(header, "classes");
  if (const Document* image = header.raw("image")) {
    const auto [channels, rows, columns] = three_integers(*image, header.file() + ": image");
    model.sizes.image = {channels, rows, columns};
  }
  network.trained = header.texts("trained", {});
  if (header.has("lora")) network.lora = read_lora(header.table("lora"));
  if (header.has("language")) network.language = read_language(header.table("language"));
  for (ConfigTable& entry : tables_in(header, "metrics")) {
    Metric metric{entry.text("name", ""), entry.text("sum", "")};
    metric.count = entry.text("count", "");
    metric.unit = entry.text("unit", "");
    entry.finish();
    network.metrics.push_back(std::move(metric));
  }
  for (ConfigTable& entry : tables_in(header, "groups")) {
    ParameterGroup group{entry.text("pattern", "")};
    group.rate = entry.number("rate", 1, 0, 1e6);
    if (entry.has("weight_decay")) group.weight_decay = entry.number("weight_decay", 0, 0, 1e6);
    entry.finish();
    network.groups.push_back(std::move(group));
  }
  header.finish();
}

/// The graphs of a file, with `$rows` in them.
class Sections {
 public:
  Sections(std::string origin, OperatorSetPtr operators)
      : origin_(std::move(origin)), operators_(std::move(operators)) {}

  /// Lines of a section, below the line `first` of the file.
  void add(ForwardPurpose purpose, std::string text, int first) {
    entries_[static_cast<size_t>(purpose)] = Entry{std::move(text), first};
  }
  bool has(ForwardPurpose purpose) const {
    return entries_[static_cast<size_t>(purpose)].has_value();
  }
  Graph graph(ForwardPurpose purpose, int64_t rows, uint64_t seed) const {
    const auto& entry = entries_[static_cast<size_t>(purpose)];
    if (!entry)
      throw UserError(fmt::format("{} has no graph for {}", origin_, to_text(purpose)),
                      fmt::format("a line '== {}' begins it", to_text(purpose)),
                      "add the graph to the file", ExitCode::kBadData);
    try {
      return parse_graph(text_for_rows(entry->text, rows, seed), operators_);
    } catch (const UserError& error) {
      throw UserError(fmt::format("{}, below line {}, for {}: {}", origin_, entry->first,
                                  to_text(purpose), error.what_happened()),
                      error.why(), error.fix(), error.exit_code());
    }
  }

 private:
  struct Entry {
    std::string text;
    int first = 0;
  };
  std::string origin_;
  OperatorSetPtr operators_;
  std::array<std::optional<Entry>, std::size(kPurposes)> entries_ = {};
};

std::optional<ForwardPurpose> purpose_named(std::string_view name) {
  for (const ForwardPurpose purpose : kPurposes)
    if (to_text(purpose) == name) return purpose;
  return std::nullopt;
}

/// Divides a file into its header and its sections.
std::string divide(std::string_view text, const std::string& origin, Sections& sections) {
  std::string header, section;
  std::optional<ForwardPurpose> purpose;
  int first = 0, line = 0;
  const auto end_section = [&] {
    if (purpose) sections.add(*purpose, std::move(section), first);
    section.clear();
  };
  for (const std::string& row : split_text(text, '\n')) {
    ++line;
    if (line == 1) {
      header += "\n";  // so that messages count the lines of the file
    } else if (row.starts_with("== ")) {
      end_section();
      const std::string name(trim(std::string_view(row).substr(3)));
      purpose = purpose_named(name);
      if (!purpose || sections.has(*purpose))
        throw UserError(fmt::format("{}: line {} is '{}'", origin, line, excerpt(row)),
                        purpose ? "a purpose has one graph"
                                : "a graph is for training, evaluation, prediction or decoding",
                        "write a line such as '== training' before each graph", ExitCode::kBadData);
      first = line;
    } else if (!purpose) {
      header += row + "\n";
    } else {
      section += row.starts_with('#') ? "\n" : row + "\n";
    }
  }
  end_section();
  return header;
}

[[noreturn]] void refuse_version(std::string_view text, const std::string& origin) {
  throw UserError(
      fmt::format("{} begins with '{}'", origin, excerpt(text.substr(0, text.find('\n')), 40)),
      fmt::format("a graph file of this version begins with the line '{}'", kFirstLine),
      "write the file by save_network or by export, in this version of the program",
      ExitCode::kBadData);
}

/// Checks the graphs with a few rows, so that faults are found before a run begins.
void check_graphs(const GraphModel& model, const Sections& sections) {
  constexpr int64_t kRows = 4;
  for (const ForwardPurpose purpose : kPurposes) {
    if (!sections.has(purpose) && purpose != ForwardPurpose::kTraining) continue;
    const Graph graph = sections.graph(purpose, kRows, 0);
    check_ops(graph);
    for (const Op& op : graph.ops())
      if (op.role != Role::kForward)
        throw UserError(model.network.name + ": '" + op.name + "' is an op of the " +
                            std::string(to_text(op.role)),
                        "a graph file has the forward; what trains it is derived",
                        "leave out the ops after the loss", ExitCode::kBadData);
  }
  check(model.network);
}

}  // namespace

GraphSizes sizes_of_inputs(const Network& network) {
  GraphSizes sizes;
  const Graph graph = written(network, ForwardPurpose::kTraining, 1);
  const auto tokens = graph.find_value("tokens"), images = graph.find_value("images");
  if (tokens && graph.is_input(*tokens) && graph.type(*tokens).shape.size() == 2)
    sizes.context = graph.type(*tokens).shape[1];
  if (images && graph.is_input(*images) && graph.type(*images).shape.size() == 4) {
    const Shape& shape = graph.type(*images).shape;
    sizes.image = {shape[1], shape[2], shape[3]};
  }
  return sizes;
}

std::string graph_file_text(const Network& network, const GraphSizes& sizes) {
  check(network);
  std::string text = std::string(kFirstLine) + "\n" + to_toml(to_document(network, sizes)) + "\n";
  for (const ForwardPurpose purpose : kPurposes)
    if (purpose != ForwardPurpose::kDecoding || (network.language && network.language->can_decode))
      text += section(network, purpose);
  return text;
}

void save_network(const Network& network, const std::filesystem::path& file) {
  write_file(file, graph_file_text(network, sizes_of_inputs(network)));
}

bool is_graph_file(std::string_view text) {
  return text.starts_with(kAnyVersion);
}

GraphModel parse_graph_file(std::string_view text, const std::string& origin,
                            OperatorSetPtr operators) {
  if (!text.starts_with(std::string(kFirstLine) + "\n")) refuse_version(text, origin);
  GraphModel model;
  model.text = text;
  const auto sections = std::make_shared<Sections>(origin, operators);
  const Document header = parse_toml(divide(text, origin, *sections), origin);
  read_header(ConfigTable(&header, "", origin), model);
  model.network.operators = std::move(operators);
  model.network.forward = [sections](Forward& forward) {
    Builder& builder = forward.builder();
    builder.graph() = sections->graph(forward.purpose(), forward.rows(), builder.seed());
  };
  check_graphs(model, *sections);
  return model;
}

GraphModel load_network(const std::filesystem::path& file, OperatorSetPtr operators) {
  return parse_graph_file(read_file(file), file.string(), std::move(operators));
}

}  // namespace tessera
