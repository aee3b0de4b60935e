#include "frontend/models/dumped_step.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "frontend/models/internal/foreign_names.h"
#include "frontend/models/internal/placed_parts.h"
#include "frontend/models/model_file.h"
#include "ir/models/graphs.h"
#include "training/engine/checkpoints/foreign_parameters.h"
#include "training/engine/engine.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFix = "write the dump by clients/tessera_dump.py";
constexpr int64_t kMaxRanks = 4096;

[[noreturn]] void refuse_dump(const fs::path& file, const std::string& why) {
  throw UserError(file.string() + " is no dump of a step", why, kFix, ExitCode::kBadData);
}

Document dump_facts(const fs::path& folder) {
  const fs::path file = folder / "dump.json";
  Document facts = parse_json(read_file(file), file.string());
  if (!facts.is_table()) refuse_dump(file, "it is " + kind_of(facts) + ", not a table");
  return facts;
}

/// "Shard(dim=1)" is 1, "Replicate()" is -1.
int dim_of_placement(const fs::path& file, const std::string& name, const std::string& text) {
  if (text == "Replicate()" || text == "R") return -1;
  const std::string_view begin = "Shard(dim=";
  if (text.starts_with(begin) && text.ends_with(")") && text.size() == begin.size() + 2 &&
      text[begin.size()] >= '0' && text[begin.size()] <= '9')
    return text[begin.size()] - '0';
  refuse_dump(file, fmt::format("the placement of '{}' is '{}'; Replicate() and Shard(dim=N) are "
                                "read, no partial values and no strided parts",
                                name, text));
}

PlacedTensors placed_of(const fs::path& folder, const Document& facts) {
  const fs::path file = folder / "dump.json";
  PlacedTensors placed;
  if (const Document* mesh = facts.find("mesh")) {
    if (!mesh->is_list() || mesh->as_list().empty()) refuse_dump(file, "its mesh is no list");
    placed.mesh.clear();
    for (const Document& size : mesh->as_list()) {
      if (!size.is_int() || size.as_int() < 1 || size.as_int() > kMaxRanks)
        refuse_dump(file, "its mesh has a size that is no number of ranks");
      placed.mesh.push_back(size.as_int());
    }
    if (placed.mesh.size() > 6 || placed.ranks() > kMaxRanks)
      refuse_dump(file, fmt::format("its mesh has more than {} ranks or 6 axes", kMaxRanks));
  }
  const Document* placements = facts.find("placements");
  if (!placements) return placed;
  if (!placements->is_table()) refuse_dump(file, "its placements are no table");
  for (const auto& [name, list] : placements->as_table()) {
    if (!list.is_list() || list.as_list().size() != placed.mesh.size())
      refuse_dump(file, fmt::format("'{}' has not a placement for each axis of the mesh", name));
    for (const Document& placement : list.as_list())
      placed.dims[name].push_back(dim_of_placement(
          file, name, placement.is_string() ? placement.as_string() : to_json(placement)));
  }
  return placed;
}

/// A folder that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> count{0};
    std::error_code error;
    path_ = fs::temp_directory_path(error) / fmt::format("tessera_dump_{}_{}", getpid(), count++);
    if (!error) fs::create_directories(path_, error);
    if (error)
      throw UserError("there is no folder for temporary files", error.message(),
                      "let $TMPDIR name a folder that can be written");
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Reads i64 or i32.
Tensor read_tokens(FileSystem& files, const fs::path& file, const std::string& name) {
  const SafetensorsFile tensors(files, file);
  const FileTensor& entry = tensors.tensor(name);
  if (entry.shape.size() != 2) refuse_dump(file, "'" + name + "' is no matrix of rows and tokens");
  std::vector<std::byte> bytes(static_cast<size_t>(entry.bytes()));
  tensors.read(entry, 0, bytes);
  std::vector<int32_t> numbers;
  const size_t size = entry.dtype == FileDType::kI64 ? 8 : 4;
  if (entry.dtype != FileDType::kI64 && entry.dtype != FileDType::kI32)
    refuse_dump(file, "'" + name + "' is no i64 or i32");
  for (size_t at = 0; at < bytes.size(); at += size) {
    int64_t number = 0;
    int32_t narrow = 0;
    std::memcpy(size == 8 ? static_cast<void*>(&number) : &narrow, bytes.data() + at, size);
    if (size == 4) number = narrow;
    if (number < 0 || number >= (int64_t{1} << 31))
      refuse_dump(file, fmt::format("'{}' has {}: every position has a token", name, number));
    numbers.push_back(static_cast<int32_t>(number));
  }
  return Tensor::of<int32_t>(entry.shape, numbers);
}

/// The data of the engine, which it does not train on: as many tokens as a batch.
std::shared_ptr<const RunData> data_for(RunConfig& config, const fs::path& folder, int64_t rows,
                                        int64_t context) {
  const std::string zeros(static_cast<size_t>(rows * (context + 1)) * sizeof(int32_t), '\0');
  const fs::path file = folder / "tokens.bin";
  write_file(file, zeros);
  config.data = {};
  config.data.kind = "bin";
  config.data.path = {file.string()};
  config.data.bits = 32;
  config.data.vocabulary = config.model.vocabulary;
  config.data.held_out = 0;
  auto data = std::make_shared<RunData>(
      load_data(config.data, {.context = context, .vocabulary = std::nullopt}));
  return data;
}

/// Loads parameters, or gradients in their place, into the engine, and takes them.
class ParameterReader {
 public:
  ParameterReader(Engine& engine, ForeignNames names) : engine_(engine), names_(std::move(names)) {}

  void load(const std::map<std::string, WholeTensor>& tensors) {
    const TemporaryFolder folder;
    RealFileSystem disk;
    std::vector<TensorToWrite> list;
    for (const auto& [name, tensor] : tensors)
      list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes.data()});
    const fs::path file = folder.path() / "model.safetensors";
    write_safetensors(*disk.create(file), list, {});
    load_foreign_parameters(engine_, TensorFiles(disk, file), names_);
  }
  std::map<std::string, Tensor> read(const std::map<std::string, WholeTensor>& tensors) {
    load(tensors);
    std::map<std::string, Tensor> read;
    const Graph& graph = engine_.graph();
    for (const Variable& variable : graph.variables())
      if (variable.trainable) {
        const std::string& name = graph.value(variable.value).name;
        read[name] = engine_.runtime().variable(name);
      }
    return read;
  }

 private:
  Engine& engine_;
  ForeignNames names_;
};

double rounding_of(const std::map<std::string, WholeTensor>& tensors) {
  double rounding = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.dtype == FileDType::kBF16) rounding = std::max(rounding, 0x1p-8);
    if (tensor.dtype == FileDType::kF16) rounding = std::max(rounding, 0x1p-11);
  }
  return rounding;
}

/// The tensors as a rank has them.
std::map<std::string, WholeTensor> of_rank(const WholeTensors& tensors, int rank) {
  std::map<std::string, WholeTensor> list = tensors.first;
  if (const auto found = tensors.differing.find(rank); found != tensors.differing.end())
    for (const auto& [name, tensor] : found->second) list[name] = tensor;
  return list;
}

}  // namespace

DumpFolder read_dump(const fs::path& folder) {
  const Document facts = dump_facts(folder);
  RealFileSystem disk;
  const Tensor tokens = read_tokens(disk, folder / "inputs.safetensors", "tokens");
  DumpFolder dump{folder, {}, tokens.type().shape[0], tokens.type().shape[1]};
  dump.sets = {fmt::format("train.batch={}", dump.rows),
               fmt::format("model.context={}", dump.context), "train.precision=f32"};
  if (const Document* sets = facts.find("set")) {
    if (!sets->is_list()) refuse_dump(folder / "dump.json", "its 'set' is no list");
    for (const Document& set : sets->as_list())
      if (set.is_string())
        dump.sets.push_back(set.as_string());
      else
        refuse_dump(folder / "dump.json", "its 'set' has what is no text");
  }
  return dump;
}

DumpedReport verify_dump(const RunConfig& given, const fs::path& names, const DumpFolder& dump) {
  const Document facts = dump_facts(dump.path);
  const PlacedTensors placed = placed_of(dump.path, facts);
  RealFileSystem disk;
  const TemporaryFolder folder;
  RunConfig config = given;
  const auto data = data_for(config, folder.path(), dump.rows, dump.context);
  Engine engine(config, serial_plan(), data);
  const fs::path inputs_file = dump.path / "inputs.safetensors";
  std::map<std::string, Tensor> inputs;
  const std::vector<std::string> of_graph = data_inputs(engine.graph());
  if (of_graph.size() != 2) refuse_dump(inputs_file, "the model has no tokens and targets");
  for (size_t i = 0; i < 2; ++i) {
    inputs[of_graph[i]] = read_tokens(disk, inputs_file, i == 0 ? "tokens" : "targets");
    if (!(inputs[of_graph[i]].type() ==
          engine.graph().type(*engine.graph().find_value(of_graph[i]))))
      refuse_dump(inputs_file, "targets and tokens have other shapes");
  }
  ParameterReader reader(engine, names_of_file(names, config.model, engine.graph()));

  const WholeTensors weights = whole_tensors(disk, dump.path, "weights", placed);
  const auto read = [&](const char* name) {
    return path_exists(dump.path / "rank-0" / (std::string(name) + ".safetensors"))
               ? std::optional(whole_tensors(disk, dump.path, name, placed))
               : std::nullopt;
  };
  const std::optional<WholeTensors> gradients = read("gradients"), updated = read("updated");
  std::set<int> ranks{-1};  // -1: as the first rank with each part has it
  for (const auto& tensors : {std::optional(weights), gradients, updated})
    if (tensors)
      for (const auto& [rank, others] : tensors->differing) ranks.insert(rank);
  DumpedReport report;
  for (const int rank : ranks) {
    ForeignStep step;
    if (const Document* loss = facts.find("loss"); loss && loss->is_number() && rank < 0)
      step.loss = loss->as_double();
    if (gradients) step.gradients = reader.read(of_rank(*gradients, rank));
    if (updated) step.updated = reader.read(of_rank(*updated, rank));
    step.rounding = rounding_of(gradients ? gradients->first : weights.first);
    reader.load(of_rank(weights, rank));
    const ForeignStepReport found = check_step(engine, inputs, step);
    report.step.tensors = std::max(report.step.tensors, found.tensors);
    report.step.max_error = std::max(report.step.max_error, found.max_error);
    if (!found.first_difference) continue;
    report.step.first_difference = found.first_difference;
    report.rank = rank;
    break;
  }
  return report;
}

}  // namespace tessera
