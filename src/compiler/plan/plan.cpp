#include "compiler/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/files/config_table.h"
#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/number_list.h"
#include "base/text/text.h"
#include "cluster/cost/cost_file.h"
#include "compiler/plan/internal/op_choices.h"
#include "compiler/plan/internal/plan_words.h"
#include "compiler/plan/internal/read_meshes.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

constexpr int64_t kFormat = 1;

// Names of former versions, which are refused with the present ones.
constexpr Renamed kRenamedKeys[] = {{"sums", "all_reduce"},
                                    {"most_kept", "max_in_flight"},
                                    {"split_matmuls", "collective_matmul"},
                                    {"overlap_mib", "prefetch_mib"}};
// Names of other systems.
constexpr KeyAlias kScheduleAliases[] = {
    {"gpipe", "f-then-b"},  {"GPipe", "f-then-b"},
    {"fthenb", "f-then-b"}, {"pipedream-flush", "1f1b"},
    {"pipedream", "1f1b"},  {"zero-bubble", "zb-h1"},
    {"zbh1", "zb-h1"},      {"zbh2", "zb-h2"},
    {"zbv", "zb-v"},        {"ZBV", "zb-v"},
    {"vpp", "interleaved"}, {"interleaved-1f1b", "interleaved"},
    {"zb1p", "zb-h1"},      {"Interleaved1F1B", "interleaved"}};
constexpr Renamed kRenamedAlgorithms[] = {{"direct", "one-shot"},
                                          {"scattered", "reduce-scatter-all-gather"},
                                          {"by-axis", "hierarchical"}};

std::string device_text(const NamedMesh& mesh) {
  return mesh.device == DeviceKind::kHost ? "" : " of devices " + std::string(to_text(mesh.device));
}

/// Ranks up to which they are listed each.
constexpr size_t kListedRanks = 8;

/// A mesh with its ranks, also when its ranks are the first ones: "dp=2 {0,1}"; of many
/// ranks "dp=16 {0,8,..,120}".
std::string text_with_ranks(const Mesh& mesh) {
  const std::string text = to_text(mesh);
  std::vector<std::string> ranks;
  for (Rank rank : mesh.ranks()) ranks.push_back(std::to_string(rank));
  return text.substr(0, text.find(" {")) + " {" +
         (ranks.size() > kListedRanks ? number_list(mesh.ranks()) : join(ranks, ",")) + "}";
}

/// The mesh as text: "dp=2 {2,3} of devices fake".
std::string mesh_text(const NamedMesh& mesh) {
  const std::string text = to_text(*mesh.mesh);
  return (text.ends_with('}') ? text_with_ranks(*mesh.mesh) : text) + device_text(mesh);
}

Mark read_mark(const ConfigTable& plan, const Document& item, size_t index) {
  const std::string& origin = plan.file();
  const std::string position = "marks[" + std::to_string(index) + "]";
  ConfigTable table = plan.inside(item, position, "marks[]");
  const std::string tensor = table.text("tensor", "");
  const std::string op = table.text("op", "");
  const std::string module = table.text("module", "");
  const std::string placement = table.text("placement", "");
  const std::string mesh = table.text("mesh", "");
  const std::string life = table.choice("copies", "step", {"step", "pass"});
  const bool says_life = item.find("copies") != nullptr;
  table.finish();
  if (says_life && tensor.empty())
    refuse_config(origin + ": " + position + " gives op '" + op + module + "' copies",
                  "tensors have copies in other placements", "name the tensor");
  const int named = !tensor.empty() + !op.empty() + !module.empty();
  if (named != 1 || (placement.empty() && mesh.empty() && !says_life))
    refuse_config(
        origin + ": " + position + " is not a mark",
        "a mark names a tensor, an op or a module, and its placement, its mesh or how long "
        "copies live",
        "write {\"tensor\": \"*.weight\", \"placement\": \"P(\\\"tp\\\")\"}");
  const Mark::Kind kind = !tensor.empty() ? Mark::Kind::kTensor
                          : !op.empty()   ? Mark::Kind::kOp
                                          : Mark::Kind::kModule;
  Mark mark{kind, tensor + op + module, placement, origin + " " + position, mesh};
  if (says_life)
    mark.copies =
        life == to_text(ReplicaLifetime::kPass) ? ReplicaLifetime::kPass : ReplicaLifetime::kStep;
  return mark;
}

std::vector<Mark> read_marks(ConfigTable& plan) {
  std::vector<Mark> marks;
  const Document* list = plan.raw("marks", {.type = "list of tables", .fallback = "[]"});
  if (!list) return marks;
  if (!list->is_list())
    refuse_config(plan.file() + ": 'marks' is " + kind_of(*list), "marks are a list",
                  "write them in [ ]");
  for (size_t i = 0; i < list->as_list().size(); ++i)
    marks.push_back(read_mark(plan, list->as_list()[i], i));
  return marks;
}

AllReduceAlgorithm read_all_reduce(ConfigTable& table) {
  const std::vector<AllReduceAlgorithm> forms = {
      AllReduceAlgorithm::kAuto, AllReduceAlgorithm::kOneShot,
      AllReduceAlgorithm::kReduceScatterAllGather, AllReduceAlgorithm::kHierarchical};
  std::vector<std::string> names;
  for (AllReduceAlgorithm form : forms) names.emplace_back(to_text(form));
  const std::string chosen = table.choice("all_reduce", names.front(), names, kRenamedAlgorithms);
  return forms[std::find(names.begin(), names.end(), chosen) - names.begin()];
}

/// Parses "off", "auto" or a number of chunks.
int64_t read_chunks(ConfigTable& table) {
  const Document* value = table.raw(
      "collective_matmul", {.type = "text or integer",
                            .fallback = "\"off\"",
                            .range = "`off`, `auto` or 2 to " + std::to_string(kMaxChunks)});
  if (!value || *value == Document("off")) return 1;
  if (*value == Document("auto")) return kAutoChunks;
  if (!value->is_int() || value->as_int() < 2 || value->as_int() > kMaxChunks)
    refuse_config(
        table.file() + ": collective_matmul is " + to_json(*value),
        "matmuls next to a collective are decomposed where costs say so, not at all, or into a "
        "number of chunks",
        "write \"auto\", \"off\" or a number from 2 to " + std::to_string(kMaxChunks));
  return value->as_int();
}

void write_chunks(int64_t chunks, Document& document) {
  if (chunks != 1)
    document["collective_matmul"] = chunks == kAutoChunks ? Document("auto") : Document(chunks);
}

double mib_of(Bytes bytes) {
  return static_cast<double>(bytes.value()) / kMib;
}
Bytes of_mib(double mib) {
  return Bytes(static_cast<int64_t>(mib * kMib));
}

void write_mib(const char* key, Bytes bytes, Bytes usual, Document& document) {
  if (bytes == usual) return;
  const bool is_whole = bytes.value() % (1 << 20) == 0;
  document[key] = is_whole ? Document(bytes.value() >> 20) : Document(mib_of(bytes));
}

HaloForm read_halos(ConfigTable& table) {
  constexpr HaloForm kForms[] = {HaloForm::kAuto, HaloForm::kExchange, HaloForm::kRecompute};
  std::vector<std::string> names;
  for (const HaloForm form : kForms) names.emplace_back(to_text(form));
  const std::string chosen = table.choice("halos", names.front(), names);
  return kForms[std::find(names.begin(), names.end(), chosen) - names.begin()];
}

void write_marks(const std::vector<Mark>& marks, Document& document) {
  document["marks"] = Document::List{};
  for (const Mark& mark : marks) {
    Document item;
    item[to_text(mark.kind)] = mark.pattern;
    if (!mark.placement.empty()) item["placement"] = mark.placement;
    if (!mark.mesh.empty()) item["mesh"] = mark.mesh;
    if (mark.copies) item["copies"] = std::string(to_text(*mark.copies));
    document["marks"].append(std::move(item));
  }
}

void check_schedule(const Plan& plan, const std::string& origin) {
  if (plan.micro_batches == 1 && plan.schedule != Plan{}.schedule)
    refuse_config(
        origin + " has schedule '" + std::string(to_text(plan.schedule)) + "' and one micro-batch",
        "a schedule orders the passes of several micro-batches",
        "set micro_batches to 2 or more, or remove 'schedule'");
  if (plan.max_in_flight > 0 && plan.schedule != PipelineKind::kAuto)
    refuse_config(
        origin + " has 'max_in_flight' and schedule '" + std::string(to_text(plan.schedule)) + "'",
        "max_in_flight limits the schedule 'auto'; every other schedule has a fixed number of "
        "micro-batches in flight",
        "remove one of the two");
}

Document axes_of(const Mesh& mesh) {
  Document::Table axes;
  for (int i = 0; i < mesh.axis_count(); ++i) {
    Document size(mesh.shape()[i]);
    if (const std::vector<int64_t>& weights = mesh.weights()[i]; !weights.empty())
      size = Document::List(weights.begin(), weights.end());
    axes.emplace_back(mesh.axes()[i], std::move(size));
  }
  return axes;
}

/// Refuses meshes that share a rank and need different devices.
void check_hardware(const Plan& plan, const std::string& origin) {
  const std::vector<std::string> needs = plan.hardware();
  for (const NamedMesh& mesh : plan.meshes)
    for (Rank rank : mesh.mesh->ranks())
      if (!mesh.hardware.empty() && needs[rank] != mesh.hardware)
        refuse_config(fmt::format("{}: rank {} needs '{}' and '{}'", origin, rank, needs[rank],
                                  mesh.hardware),
                      "it is in two meshes, and a rank has one device",
                      "write the same 'hardware' into both, or give them ranks of their own");
}

void write_device(const NamedMesh& mesh, Document& document) {
  if (!mesh.hardware.empty()) document["hardware"] = mesh.hardware;
  if (mesh.device != DeviceKind::kHost) document["device"] = std::string(to_text(mesh.device));
}

void write_meshes(const Plan& plan, Document& document) {
  if (plan.meshes.size() <= 1) {
    document["mesh"] =
        plan.meshes.empty() ? Document(Document::Table{}) : axes_of(*plan.meshes[0].mesh);
    if (!plan.meshes.empty()) write_device(plan.meshes[0], document);
    return;
  }
  for (const NamedMesh& mesh : plan.meshes) {
    Document item;
    item["name"] = mesh.name;
    item["mesh"] = axes_of(*mesh.mesh);
    for (Rank rank : mesh.mesh->ranks()) item["ranks"].append(rank);
    if (mesh.view_of.empty())
      write_device(mesh, item);
    else
      item["view_of"] = mesh.view_of;
    document["meshes"].append(std::move(item));
  }
}

/// What a plan of one mesh says of its ranks in place of the mesh.
void read_needs(ConfigTable& table, const std::string& origin, Plan& plan) {
  if (const DeviceKind device = read_device(table); device != DeviceKind::kHost) {
    if (table.has("meshes"))
      refuse_config(origin + " has 'meshes' and 'device'",
                    "each of several meshes has a device kind of its own",
                    "write 'device' into them");
    plan.meshes = plan.placed();
    plan.meshes.front().device = device;
  }
  if (std::string hardware = read_hardware(table); !hardware.empty()) {
    if (table.has("meshes"))
      refuse_config(origin + " has 'meshes' and 'hardware'",
                    "each of several meshes says what its ranks need",
                    "write 'hardware' into them");
    plan.meshes = plan.placed();
    plan.meshes.front().hardware = std::move(hardware);
  }
}

}  // namespace

std::string_view to_text(HaloForm form) {
  switch (form) {
    case HaloForm::kExchange: return "exchange";
    case HaloForm::kRecompute: return "recompute";
    case HaloForm::kAuto: return "auto";
  }
  throw InternalError("unknown form of halos");
}

Meshes Plan::placed() const {
  if (!meshes.empty()) return meshes;
  return one_mesh(std::make_shared<const Mesh>(Shape{1}, std::vector<std::string>{"all"}));
}

std::vector<Rank> Plan::ranks() const {
  return ranks_of(placed());
}

std::vector<std::string> Plan::hardware() const {
  std::vector<std::string> needs(ranks().size());
  for (const NamedMesh& mesh : meshes)
    for (Rank rank : mesh.mesh->ranks())
      if (std::string& need = needs[rank]; need.empty()) need = mesh.hardware;
  return needs;
}

std::string mesh_text(const Plan& plan) {
  if (plan.meshes.empty()) return "one rank";
  if (plan.meshes.size() == 1) return mesh_text(plan.meshes[0]);
  std::vector<std::string> texts;
  for (const NamedMesh& mesh : plan.meshes)
    texts.push_back(mesh.name + ": " + text_with_ranks(*mesh.mesh) + device_text(mesh) +
                    (mesh.view_of.empty() ? "" : ", a view of " + mesh.view_of));
  return join(texts, ", ");
}

Plan serial_plan() {
  return {};
}

Plan read_plan(const std::filesystem::path& file, std::optional<int> ranks) {
  Plan plan = parse_plan(parse_commented_json(read_file(file), file.string()), file.string(),
                         {.ranks = ranks});
  plan.name = file.stem().string();
  return plan;
}

Plan parse_plan(const Document& document, const std::string& origin, const PlanReading& reading) {
  ConfigTable table(&document, "", origin, reading.keys);
  for (const std::string_view key : reading.other_keys) table.raw(std::string(key));
  Plan plan;
  plan.name = origin;
  const int64_t format = table.integer("format", kFormat, 0, 1000000);
  if (format != kFormat)
    refuse_config(origin + " has format " + std::to_string(format),
                  "this program reads format " + std::to_string(kFormat),
                  "make the plan anew with this version");
  plan.meshes = read_meshes(table, reading.ranks);
  read_needs(table, origin, plan);
  check_hardware(plan, origin);
  plan.accumulate = table.integer("accumulate", 1, 1, 1 << 20);
  plan.micro_batches = plan.accumulate * table.integer("micro_batches", 1, 1, 1 << 20);
  std::vector<std::string> schedules;
  for (const PipelineFacts& facts : pipeline_schedules()) schedules.emplace_back(facts.name);
  plan.schedule =
      parse_pipeline_kind(table.choice("schedule", "1f1b", schedules, {}, kScheduleAliases));
  plan.max_in_flight = table.integer("max_in_flight", 0, 0, 1 << 20);
  check_schedule(plan, origin);
  plan.all_reduce = read_all_reduce(table);
  plan.collective_matmul = read_chunks(table);
  plan.prefetch_window =
      of_mib(table.number("prefetch_mib", mib_of(plan.prefetch_window), 0, kMib));
  plan.bucket = of_mib(table.number("bucket_mib", mib_of(plan.bucket), 0, kMib));
  plan.halos = read_halos(table);
  plan.tasks = read_tasks(table);
  plan.recompute = read_recompute(table);
  plan.offload = read_offload(table);
  plan.offload_window = of_mib(table.number("offload_mib", mib_of(plan.offload_window), 0, kMib));
  plan.disabled_passes = table.texts("disabled_passes", {});
  plan.is_found = table.boolean("found", false);
  if (table.raw("mapping")) plan.mapping = read_mapping(table.table("mapping"), plan.rank_count());
  if (const Document* cost = table.raw("cost")) plan.cost = parse_cost_model(*cost, "cost", origin);
  plan.marks = read_marks(table);
  if (const Document* shardings = table.raw("shardings"))
    plan.shardings = parse_shardings(*shardings, origin, reading.keys);
  if (plan.shardings && !plan.marks.empty())
    refuse_config(origin + " has 'marks' and 'shardings'",
                  "shardings place every op and value, so marks would decide nothing",
                  "remove one of the two");
  if (table.raw("fingerprint")) plan.fingerprint = read_fingerprint(table.table("fingerprint"));
  table.refuse_renamed(kRenamedKeys);
  table.refuse_alias(plan_aliases());
  table.refuse_foreign(foreign_plan_keys());
  table.finish();
  return plan;
}

Document to_document(const Plan& plan, const Graph& graph,
                     const std::optional<RewrittenFingerprint>& rewritten) {
  Document document;
  document["format"] = kFormat;
  write_meshes(plan, document);
  // Where a search chose other micro-batches, the parts are no decision any more.
  const bool has_parts = plan.accumulate > 1 && plan.micro_batches % plan.accumulate == 0;
  document["micro_batches"] = plan.micro_batches / (has_parts ? plan.accumulate : 1);
  if (has_parts) document["accumulate"] = plan.accumulate;
  document["schedule"] = std::string(to_text(plan.schedule));
  if (plan.max_in_flight > 0) document["max_in_flight"] = plan.max_in_flight;
  if (plan.all_reduce != AllReduceAlgorithm::kAuto)
    document["all_reduce"] = std::string(to_text(plan.all_reduce));
  write_chunks(plan.collective_matmul, document);
  write_mib("prefetch_mib", plan.prefetch_window, kPrefetchWindow, document);
  write_mib("bucket_mib", plan.bucket, kGradientBucket, document);
  write_tasks(plan.tasks, document);
  write_recompute(plan.recompute, document);
  write_offload(plan.offload, document);
  write_mib("offload_mib", plan.offload_window, kOffloadWindow, document);
  for (const std::string& pass : plan.disabled_passes) document["disabled_passes"].append(pass);
  if (plan.is_found) document["found"] = true;
  if (plan.mapping) document["mapping"] = to_document(*plan.mapping);
  if (plan.cost != CostModel{}) document["cost"] = to_document(plan.cost);
  if (plan.halos != HaloForm::kAuto) document["halos"] = std::string(to_text(plan.halos));
  if (plan.shardings)
    document["shardings"] = to_document(*plan.shardings);
  else
    write_marks(plan.marks, document);
  document["fingerprint"] = to_document(fingerprint_of(graph, rewritten));
  return document;
}

std::string describe_other_passes(const Plan& plan, const RewrittenFingerprint& present) {
  if (!plan.fingerprint || !plan.fingerprint->rewritten) return "";
  const RewrittenFingerprint& planned = *plan.fingerprint->rewritten;
  // With equal passes it is another program, such as that of an evaluation.
  if (planned.graph == present.graph || planned.passes == present.passes) return "";
  const auto list = [](const std::vector<std::string>& passes) {
    return passes.empty() ? std::string("no passes") : join(passes, ", ");
  };
  return "the plan was written after " + list(planned.passes) + " had rewritten the graph; after " +
         list(present.passes) + " the graph is another one, which computes the same";
}

void check_fits(const Plan& plan, const Graph& graph) {
  check_patterns("tasks", plan.tasks.patterns, plan.name, graph);
  check_patterns("recompute", plan.recompute.patterns, plan.name, graph);
  check_offload(plan.offload, plan.name, graph);
  const bool fits_all = plan.meshes.empty() && !plan.shardings;  // the serial plan
  if (!plan.fingerprint || plan.fingerprint->graph.empty() || fits_all) return;
  const PlanFingerprint present = fingerprint_of(graph);
  if (plan.fingerprint->graph == present.graph) return;
  const bool is_identical = plan.fingerprint->parameters == present.parameters;
  refuse_config(
      "plan '" + plan.name + "' was made for " +
          (is_identical ? "another batch, seed or version of this model" : "another model"),
      difference(*plan.fingerprint, present),
      "use the configuration that the plan was made for, or remove its 'fingerprint' to apply "
      "its marks here");
}

void check_ranks(const Plan& plan, int ranks) {
  const int needed = plan.rank_count();
  if (needed == ranks) return;
  refuse_config("plan '" + plan.name + "' needs " + counted(needed, "rank") + " but there are " +
                    std::to_string(ranks),
                (plan.meshes.size() > 1 ? "its meshes are " : "its mesh is ") + mesh_text(plan) +
                    ", and each of its positions is one rank",
                "run with --ranks " + std::to_string(needed) + ", or use a plan of " +
                    counted(ranks, "rank"));
}

}  // namespace tessera
