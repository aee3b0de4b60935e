#include "compiler/plan/internal/read_meshes.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"

namespace tessera {
namespace {

// Names of former versions, which are refused with the present ones.
constexpr Renamed kRenamedMeshKeys[] = {{"processes", "ranks"}};

/// The weights of [2, 1]; none for anything but a list of integers.
std::vector<int64_t> read_weights(const Document& size) {
  std::vector<int64_t> weights;
  if (!size.is_list()) return weights;
  for (const Document& item : size.as_list()) {
    if (!item.is_int()) return {};
    weights.push_back(item.as_int());
  }
  return weights;
}

/// The number of ranks is the product of the axes, which must not overflow.
void check_size(const Shape& shape, const std::string& origin) {
  int64_t ranks = 1;
  for (const int64_t size : shape) {
    if (size > kMaxMeshRanks / ranks)
      refuse_config(origin + ": the mesh has more than " + std::to_string(kMaxMeshRanks) + " ranks",
                    "its ranks are the product of its axes, and this is the limit",
                    "use smaller axes");
    ranks *= size;
  }
}

/// The size of the axis of the size kRest.
int64_t read_rest(const Document::Table& axes, const std::string& origin,
                  std::optional<int64_t> ranks) {
  int64_t others = 1, rests = 0;
  for (const auto& [axis, size] : axes) {
    if (size == Document(std::string(kRest))) ++rests;
    const int64_t parts = size.is_int()    ? size.as_int()
                          : size.is_list() ? std::ssize(size.as_list())
                                           : 1;
    others *= std::clamp<int64_t>(parts, 1, kMaxMeshRanks + 1);
    others = std::min(others, kMaxMeshRanks + 1);  // it may not overflow; check_size refuses it
  }
  if (rests > 1)
    refuse_config(origin + ": " + std::to_string(rests) + " mesh axes have the size \"rest\"",
                  "the number of ranks, divided by the other axes, is the size of one axis",
                  "give the sizes of the others");
  if (!ranks)
    refuse_config(
        origin + ": a mesh axis has the size \"rest\", and the number of ranks is not known",
        "it is the number of ranks divided by the other axes, " + std::to_string(others),
        "give it with --ranks, or write the size");
  if (*ranks % others != 0)
    refuse_config(origin + ": the mesh does not fit " + counted(*ranks, "rank"),
                  "the axes beside the one of the size \"rest\" have " +
                      counted(others, "position") + ", which does not divide " +
                      std::to_string(*ranks),
                  "run with a multiple of " + counted(others, "rank") + ", or change an axis");
  return *ranks / others;
}

/// `count`: of the run, when it is known; `ranks` say it, too.
Mesh read_mesh(const Document& mesh, const std::string& origin, std::vector<Rank> ranks,
               std::optional<int64_t> count) {
  if (!ranks.empty()) count = std::ssize(ranks);
  if (!mesh.is_table())
    refuse_config(origin + ": 'mesh' is " + kind_of(mesh),
                  "a mesh is a table of axes and their sizes",
                  "write it as {\"dp\": 2, \"tp\": 2}");
  if (mesh.as_table().empty()) return Mesh({1}, {"all"}, std::move(ranks));  // as the serial plan
  Shape shape;
  std::vector<std::string> axes;
  AxisWeights weights;
  if (std::ssize(mesh.as_table()) > kMaxMeshAxes)
    refuse_config(origin + ": the mesh has " + std::to_string(mesh.as_table().size()) + " axes",
                  "a mesh has at most " + std::to_string(kMaxMeshAxes), "join some of the axes");
  for (const auto& [axis, size] : mesh.as_table()) {
    if (axis == kMicroBatchAxis)
      refuse_config(origin + ": a mesh axis is called '" + axis + "'",
                    "this is the name of the micro-batches in placements, which are equal parts",
                    "choose another name; micro_batches is the number of micro-batches");
    if (size == Document(std::string(kRest))) {
      shape.push_back(read_rest(mesh.as_table(), origin, count));
      axes.push_back(axis);
      weights.emplace_back();
      continue;
    }
    weights.push_back(read_weights(size));
    if (weights.back().empty() && (!size.is_int() || size.as_int() < 1))
      refuse_config(
          origin + ": mesh axis '" + axis + "' has size " + to_json(size),
          "a size is an integer of at least 1, or a list of the weights of the parts, which are "
          "such integers",
          "write it as {\"" + axis + "\": 2}, or as {\"" + axis +
              "\": [2, 1]} for two parts of weights 2 and 1");
    shape.push_back(size.is_int() ? size.as_int() : std::ssize(weights.back()));
    axes.push_back(axis);
  }
  check_size(shape, origin);
  return Mesh(shape, std::move(axes), std::move(ranks), std::move(weights));
}

std::vector<Rank> read_ranks(const Document* list, const std::string& origin) {
  std::vector<Rank> ranks;
  if (!list) return ranks;
  if (!list->is_list())
    refuse_config(origin + ": 'ranks' is " + kind_of(*list),
                  "the ranks of a mesh are a list of numbers", "write them as [0, 1]");
  for (const Document& item : list->as_list()) {
    if (!item.is_int() || item.as_int() < 0)
      refuse_config(origin + ": " + to_json(item) + " is not a rank", "ranks are numbered from 0",
                    "write them as [0, 1]");
    ranks.push_back(static_cast<Rank>(item.as_int()));
  }
  return ranks;
}

/// What a view has of the stage of which it is one.
void take_stage(const Meshes& stages, const std::string& origin, NamedMesh& view,
                std::vector<Rank>& ranks) {
  const auto stage = std::ranges::find(stages, view.view_of, &NamedMesh::name);
  std::vector<std::string> names;
  for (const NamedMesh& mesh : stages)
    if (mesh.view_of.empty()) names.push_back("'" + mesh.name + "'");
  if (stage == stages.end() || !stage->view_of.empty())
    refuse_config(origin + " is a view of '" + view.view_of + "', which is no stage before it",
                  "a view is another mesh of the ranks of a stage",
                  names.empty() ? "write the stages first" : "the stages are " + join(names, ", "));
  const std::vector<Rank>& own = stage->mesh->ranks();
  if (!ranks.empty() && !std::ranges::is_permutation(ranks, own))
    refuse_config(origin + " has other ranks than '" + view.view_of + "'",
                  "a view is another mesh of the ranks of a stage", "remove 'ranks'");
  if ((view.device != DeviceKind::kHost && view.device != stage->device) ||
      (!view.hardware.empty() && view.hardware != stage->hardware))
    refuse_config(origin + " has another device than '" + view.view_of + "'",
                  "a view is another mesh of the ranks of a stage, and a rank has one device",
                  "remove 'device' and 'hardware'");
  if (ranks.empty()) ranks = own;
  view.device = stage->device;
  view.hardware = stage->hardware;
}

/// One of several meshes, after `before`.
NamedMesh read_one_of(const ConfigTable& plan, const Document& item, const Meshes& before) {
  const size_t index = before.size();
  const std::string& origin = plan.file();
  const std::string position = "meshes[" + std::to_string(index) + "]";
  ConfigTable table = plan.inside(item, position, "meshes[]");
  NamedMesh made;
  made.name = table.text("name", "");
  const Document* mesh = table.raw("mesh", {.range = "sizes from 1, or lists of weights"});
  std::vector<Rank> ranks = read_ranks(
      table.raw("ranks", {.type = "list of integers", .range = "from 0"}), origin + " " + position);
  made.device = read_device(table);
  made.hardware = read_hardware(table);
  made.view_of = table.text("view_of", "");
  table.refuse_renamed(kRenamedMeshKeys);
  table.finish();
  if (!made.view_of.empty()) {
    take_stage(before, origin + " " + position, made, ranks);
  } else if (!before.empty() && !before.back().view_of.empty()) {
    refuse_config(origin + ": " + position + " is a stage after a view",
                  "views come after all stages, which have numbers", "put it before the views");
  }
  if (made.name.empty() || !mesh || ranks.empty())
    refuse_config(origin + ": " + position + " is not a mesh",
                  "one of several meshes has a name, its axes and its ranks",
                  "write {\"name\": \"first\", \"mesh\": {\"dp\": 2}, \"ranks\": [0, 1]}");
  if (!can_name_mesh(made.name))
    refuse_config(origin + ": '" + made.name + "' cannot name a mesh",
                  "a name is a letter and then letters, digits or _", "call it first, last, ...");
  if (std::ranges::find(before, made.name, &NamedMesh::name) != before.end())
    refuse_config(origin + ": two meshes are called '" + made.name + "'",
                  "marks say by name to which mesh an op belongs", "give each a name of its own");
  made.mesh = std::make_shared<const Mesh>(
      read_mesh(*mesh, origin + " " + position, std::move(ranks), std::nullopt));
  return made;
}

}  // namespace

DeviceKind read_device(ConfigTable& table) {
  std::vector<std::string> kinds;
  for (DeviceKind kind : all_device_kinds()) kinds.emplace_back(to_text(kind));
  return parse_device_kind(table.choice("device", "host", kinds));
}

std::string read_hardware(ConfigTable& table) {
  return table.text("hardware", "");
}

std::vector<Rank> ranks_of(const Meshes& meshes) {
  std::set<Rank> all;
  for (const NamedMesh& mesh : meshes)
    all.insert(mesh.mesh->ranks().begin(), mesh.mesh->ranks().end());
  return {all.begin(), all.end()};
}

Meshes read_meshes(ConfigTable& plan, std::optional<int> ranks_of_run) {
  const std::string& origin = plan.file();
  const Document* one = plan.raw(
      "mesh", {.fallback = "{}", .range = "sizes from 1, lists of weights, or `\"rest\"`"});
  const Document* several = plan.raw("meshes", {.type = "list of tables"});
  if (one && several)
    refuse_config(origin + " has 'mesh' and 'meshes'", "a plan has one mesh or several",
                  "keep one of the two");
  Meshes meshes;
  if (one && !(one->is_table() && one->as_table().empty()))
    meshes = one_mesh(std::make_shared<const Mesh>(read_mesh(*one, origin, {}, ranks_of_run)));
  if (!several) return meshes;
  if (!several->is_list())
    refuse_config(origin + ": 'meshes' is " + kind_of(*several), "the meshes of a plan are a list",
                  "write them in [ ]");
  for (size_t i = 0; i < several->as_list().size(); ++i)
    meshes.push_back(read_one_of(plan, several->as_list()[i], meshes));
  const std::vector<Rank> ranks = ranks_of(meshes);
  for (Rank rank = 0; rank < std::ssize(ranks); ++rank)
    if (ranks[rank] != rank)
      refuse_config(origin + " has no mesh with rank " + std::to_string(rank),
                    "the ranks of all meshes are numbered 0, 1, 2, ... without a gap",
                    "number them anew, or put rank " + std::to_string(rank) + " into a mesh");
  return meshes;
}

}  // namespace tessera
