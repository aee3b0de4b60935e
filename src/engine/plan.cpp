#include "engine/plan.h"

#include <fmt/format.h>

#include "base/config_table.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tessera {
namespace {

constexpr int64_t kFormat = 1;

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kBadConfig);
}

void read_mesh(const Document* mesh, const std::string& origin, Plan& plan) {
  if (!mesh) return;
  if (!mesh->is_table()) refuse(origin + ": 'mesh' is " + kind_of(*mesh), "a mesh is a table of axes and their sizes", "write it as {\"dp\": 2, \"tp\": 2}");
  for (const auto& [axis, size] : mesh->as_table()) {
    if (!size.is_int() || size.as_int() < 1)
      refuse(origin + ": mesh axis '" + axis + "' has size " + to_json(size), "a size is an integer of at least 1", "write it as {\"" + axis + "\": 2}");
    plan.mesh_shape.push_back(size.as_int());
    plan.mesh_axes.push_back(axis);
  }
}

Mark read_mark(const Document& item, const std::string& origin, size_t index) {
  const std::string place = "marks[" + std::to_string(index) + "]";
  ConfigTable table(&item, place, origin);
  const std::string tensor = table.text("tensor", "");
  const std::string op = table.text("op", "");
  const std::string placement = table.text("placement", "");
  table.finish();
  if (tensor.empty() == op.empty() || placement.empty())
    refuse(origin + ": " + place + " is not a mark", "a mark names a tensor or an op and its placement", "write {\"tensor\": \"*.weight\", \"placement\": \"P(\\\"tp\\\")\"}");
  return {op.empty() ? Mark::Kind::kTensor : Mark::Kind::kOp, op.empty() ? tensor : op, placement, origin + " " + place};
}

std::optional<PlanFingerprint> read_fingerprint(ConfigTable table, const Document* present) {
  if (!present) return std::nullopt;
  PlanFingerprint fingerprint;
  fingerprint.graph = table.text("graph", "");
  fingerprint.version = table.text("version", "");
  if (const Document* parameters = table.raw("parameters"))
    for (const auto& [name, type] : parameters->as_table()) fingerprint.parameters[name] = type.is_string() ? type.as_string() : to_json(type);
  table.finish();
  return fingerprint;
}

std::map<std::string, std::string> parameters_of(const Graph& graph) {
  std::map<std::string, std::string> parameters;
  for (const Variable& variable : graph.variables())
    if (variable.trainable) parameters[graph.value(variable.value).name] = to_text(graph.type(variable.value));
  return parameters;
}

std::string hash_of(const Graph& graph) { return fmt::format("{:016x}", fingerprint(graph)); }

/// At most a few lines: "- head.weight f32[128,256]" is in the plan only, "+ ..." in the model only.
std::string diff(const std::map<std::string, std::string>& planned, const std::map<std::string, std::string>& present) {
  std::vector<std::string> lines;
  for (const auto& [name, type] : planned)
    if (const auto found = present.find(name); found == present.end() || found->second != type) lines.push_back("- " + name + " " + type);
  for (const auto& [name, type] : present)
    if (const auto found = planned.find(name); found == planned.end() || found->second != type) lines.push_back("+ " + name + " " + type);
  if (lines.empty()) return "the parameters are the same; the ops, the batch or the seed differ";
  const size_t all = lines.size();
  if (all > 8) lines.resize(8);
  return "parameters of the plan (-) and of the model (+):\n    " + join(lines, "\n    ") + (all > 8 ? "\n    and " + std::to_string(all - 8) + " more" : "");
}

}  // namespace

MeshPtr Plan::mesh() const {
  if (mesh_shape.empty()) return std::make_shared<const ProcessMesh>(Shape{1}, std::vector<std::string>{"all"});
  return std::make_shared<const ProcessMesh>(mesh_shape, mesh_axes);
}

int Plan::ranks() const { return static_cast<int>(element_count(mesh_shape)); }

Plan serial_plan() { return {}; }

Plan read_plan(const std::filesystem::path& file) {
  Plan plan = parse_plan(parse_json(read_file(file), file.string()), file.string());
  plan.name = file.stem().string();
  return plan;
}

Plan parse_plan(const Document& document, const std::string& origin) {
  ConfigTable table(&document, "", origin);
  Plan plan;
  plan.name = origin;
  const int64_t format = table.integer("format", kFormat, 0, 1000000);
  if (format != kFormat)
    refuse(origin + " has format " + std::to_string(format), "this program reads format " + std::to_string(kFormat), "make the plan anew with this version");
  read_mesh(table.raw("mesh"), origin, plan);
  plan.micro_batches = table.integer("micro_batches", 1, 1, 1 << 20);
  if (plan.micro_batches != 1)
    refuse(origin + " asks for " + std::to_string(plan.micro_batches) + " micro-batches", "this version runs one micro-batch a step", "set micro_batches to 1");
  if (const Document* marks = table.raw("marks")) {
    if (!marks->is_list()) refuse(origin + ": 'marks' is " + kind_of(*marks), "marks are a list", "write them in [ ]");
    for (size_t i = 0; i < marks->as_list().size(); ++i) plan.marks.push_back(read_mark(marks->as_list()[i], origin, i));
  }
  const Document* stamp = table.raw("fingerprint");
  plan.fingerprint = read_fingerprint(table.table("fingerprint"), stamp);
  table.finish();
  plan.mesh();  // checks the axes
  return plan;
}

Document to_document(const Plan& plan, const Graph& graph) {
  Document document;
  document["format"] = kFormat;
  Document::Table mesh;
  for (int i = 0; i < plan.mesh_shape.size(); ++i) mesh.emplace_back(plan.mesh_axes[static_cast<size_t>(i)], Document(plan.mesh_shape[i]));
  document["mesh"] = std::move(mesh);
  document["micro_batches"] = plan.micro_batches;
  document["marks"] = Document::List{};
  for (const Mark& mark : plan.marks) {
    Document item;
    item[mark.kind == Mark::Kind::kTensor ? "tensor" : "op"] = mark.pattern;
    item["placement"] = mark.placement;
    document["marks"].append(std::move(item));
  }
  Document& stamp = document["fingerprint"];
  stamp["graph"] = hash_of(graph);
  stamp["version"] = std::string(version());
  Document::Table parameters;
  for (const auto& [name, type] : parameters_of(graph)) parameters.emplace_back(name, Document(type));
  stamp["parameters"] = std::move(parameters);
  return document;
}

void check_fits(const Plan& plan, const Graph& graph) {
  if (!plan.fingerprint || plan.fingerprint->graph == hash_of(graph)) return;
  refuse("plan '" + plan.name + "' was made for another model", diff(plan.fingerprint->parameters, parameters_of(graph)),
         "use the configuration that the plan was made for, or remove its 'fingerprint' to apply its marks here");
}

void check_ranks(const Plan& plan, int ranks) {
  if (plan.ranks() == ranks) return;
  const std::string mesh = plan.mesh_shape.empty() ? "one process" : to_text(*plan.mesh());
  refuse("plan '" + plan.name + "' needs " + std::to_string(plan.ranks()) + " ranks but there are " + std::to_string(ranks),
         "its mesh is " + mesh + ", and each place of a mesh is one rank",
         "run with --ranks " + std::to_string(plan.ranks()) + ", or use a plan whose mesh has " + std::to_string(ranks) + " places");
}

std::string_view version() { return "0.1.0"; }

}  // namespace tessera
