#include "readers.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/gzip.h"
#include "base/solver/contest_file.h"
#include "cluster/cluster/cluster_file.h"
#include "cluster/cluster/import/import.h"
#include "cluster/cost/cost_file.h"
#include "compiler/plan/plan.h"
#include "frontend/models/model_file.h"
#include "frontend/targets/current_setting.h"
#include "ir/models/graph_file.h"
#include "tools/fuzz/fuzz_case.h"
#include "training/checkpoint/index.h"
#include "training/checkpoint/safetensors.h"
#include "training/config/config.h"
#include "training/data/array_files.h"

namespace tessera {
namespace {

using Bytes = std::span<const std::byte>;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file with these bytes; it is removed at the end.
class TemporaryFile {
 public:
  TemporaryFile(Bytes bytes, const std::string& ending)
      : path_(std::filesystem::temp_directory_path() /
              ("tessera_fuzz_files_" + std::to_string(getpid()) + ending)) {
    std::ofstream out(path_, std::ios::binary);
    out.write(text_of(bytes).data(), static_cast<std::streamsize>(bytes.size()));
    ensure(out.good(), "'" + path_.string() + "' can be written");
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

void read_config(Bytes bytes) {
  const TemporaryFile file(bytes, ".toml");
  read_config_file(file.path());
}

void read_hugging_face_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".json");
  read_model_file(file.path().string(), {});
}

/// The first line says the target, and for a file its ending: "torchtitan .toml".
void read_current_setting(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::string_view rest = text.substr(std::min(line.size() + 1, text.size()));
  const size_t space = std::min(line.find(' '), line.size());
  const Target target = find_target(line.substr(0, space)).value_or(Target::kTorchtitan);
  const TransformerSizes model{.layers = 32, .width = 4096, .heads = 32, .kv_heads = 8, .head = 128,
                               .ffn = 14336, .vocabulary = 128256, .context = 8192};
  const CurrentText current{std::string(rest), std::string(line.substr(space))};
  current_run(target, current);
  read_current(target, current, model, 64);
}

void read_graph_file(Bytes bytes) {
  parse_graph_file(text_of(bytes), "a graph file");
}

void read_plan_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".json");
  read_plan(file.path());
}

void read_cost(Bytes bytes) {
  const TemporaryFile file(bytes, ".toml");
  read_cost_model(file.path());
}

/// A file, and its text as the one line that describes a cluster.
void read_cluster_text(Bytes bytes) {
  const std::string text(text_of(bytes));
  if (is_cluster_line(text)) parse_cluster_line(text);
  ClusterReading reading;
  reading.imported = [](const std::filesystem::path& file) {
    return std::string(file.extension() == ".conf" ? "SwitchName=s Nodes=n[0-1]"
                                                   : "  GPU0 GPU1\nGPU0 X NV4\nGPU1 NV4 X\n");
  };
  const Cluster cluster(
      parse_cluster_description(parse_toml(text, "cluster.toml"), "cluster.toml", reading));
}

/// A file of another system, whatever its bytes look like; with the options that one format needs.
template <ImportFormat format>
void read_import(Bytes bytes) {
  const std::string_view text = text_of(bytes);
  if (format == ImportFormat::kSlurm) parse_slurm_topology(text, "topology.conf");
  if (format == ImportFormat::kNvidiaSmi) parse_nvidia_smi(text, "topo.txt");
  if (format == ImportFormat::kNccl) parse_nccl_topology(text, "topo.xml");
  if (import_format(text) != format) return;
  std::vector<std::string> options;
  if (format == ImportFormat::kSlurm) options = {"machine=2xa100-80g"};
  if (format == ImportFormat::kNvidiaSmi) options = {"device=h100-sxm", "machines=2"};
  if (format == ImportFormat::kNccl) options = {"device=b200"};
  const Cluster cluster(import_cluster(text, "file", options));
}

void read_problem_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".json");
  solver::read_problem(file.path());
}

void read_checkpoint_index(Bytes bytes) {
  parse_index(parse_json(text_of(bytes), "index.json"), "index.json");
}

void read_safetensors(Bytes bytes) {
  const TemporaryFile path(bytes, ".safetensors");
  RealFileSystem disk;
  const SafetensorsFile file(disk, path.path());
  parse_rank_file(file.header(), "a rank file");
}

void read_idx_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".idx");
  tokens_of(read_idx(file.path()), 0);
}

void read_npy_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".npy");
  tokens_of(read_npy(file.path()), 0);
}

void read_npz_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".npz");
  tokens_of(read_npy(file.path()), 0);
}

void read_gzip_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".gz");
  read_inflated(file.path());
}

void read_cifar_file(Bytes bytes) {
  const TemporaryFile file(bytes, ".bin");
  const ArrayImages images(read_cifar({file.path()}, 10), 10);
}

void read_json_lines(Bytes bytes) {
  const TemporaryFile file(bytes, ".jsonl");
  read_token_lines({file.path()}, 0);
}

void read_fuzz_case(Bytes bytes) {
  fuzz::parse_case(text_of(bytes));
}

constexpr Reader kReaders[] = {
    {"config", read_config},
    {"current", read_current_setting},
    {"graph", read_graph_file},
    {"hugging_face", read_hugging_face_file},
    {"plan", read_plan_file},
    {"cost", read_cost},
    {"cluster", read_cluster_text},
    {"slurm", read_import<ImportFormat::kSlurm>},
    {"nvidia_smi", read_import<ImportFormat::kNvidiaSmi>},
    {"nccl", read_import<ImportFormat::kNccl>},
    {"paddle", read_import<ImportFormat::kPaddle>},
    {"problem", read_problem_file},
    {"checkpoint_index", read_checkpoint_index},
    {"safetensors", read_safetensors},
    {"idx", read_idx_file},
    {"npy", read_npy_file},
    {"npz", read_npz_file},
    {"gz", read_gzip_file},
    {"cifar", read_cifar_file},
    {"jsonl", read_json_lines},
    {"fuzz_case", read_fuzz_case},
};

}  // namespace

std::span<const Reader> readers() {
  return kReaders;
}

const Reader* find_reader(std::string_view name) {
  const auto found = std::ranges::find(readers(), name, &Reader::name);
  return found == readers().end() ? nullptr : &*found;
}

void read_anything(const Reader& reader, std::span<const std::byte> bytes) try {
  reader.read(bytes);
} catch (const UserError& error) {
  const std::string text = error.what();
  for (const char* part : {"\n  why: ", "\n  fix: "})
    if (text.find(part) == std::string::npos)
      throw std::logic_error("an error without its three parts: " + text);
}

}  // namespace tessera
