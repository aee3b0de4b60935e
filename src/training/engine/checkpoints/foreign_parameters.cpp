#include "training/engine/checkpoints/foreign_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "base/finite.h"
#include "base/tensor/narrow_float.h"
#include "base/tensor/tensor.h"
#include "base/text/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOneFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr int64_t kBytesOfRead = int64_t{4} << 20;
constexpr size_t kNamesInMessage = 8;

/// How a variable is a matrix.
struct Matrix {
  int64_t inputs = 1, outputs = 1;
};
Matrix matrix_of(const Shape& shape, int input_dims) {
  Matrix matrix;
  for (int d = 0; d < shape.size(); ++d)
    (d < input_dims ? matrix.inputs : matrix.outputs) *= shape[d];
  return matrix;
}

/// The output of the file's tensor that is output `o` of the variable.
int64_t output_in_file(const ForeignTensor& tensor, int64_t o) {
  if (tensor.group == 0) return tensor.first + o;
  return tensor.first + o / tensor.group * tensor.stride + o % tensor.group;
}

/// The columns of the matrix of the file, of `elements`, that has a variable of shape `whole`.
int64_t columns_of(const ForeignTensor& tensor, const Shape& whole, int64_t elements) {
  const int64_t inputs = std::max<int64_t>(matrix_of(whole, tensor.input_dims).inputs, 1);
  return tensor.transposed ? inputs : elements / inputs;
}

/// The shapes of the tensors of the files, which may be of several variables.
std::map<std::string, Shape> shapes_of_files(const std::map<std::string, TensorType>& variables,
                                             const ForeignNames& names) {
  std::map<std::string, Shape> shapes;
  for (const auto& [variable, tensor] : names.by_variable) {
    const auto found = variables.find(variable);
    if (found == variables.end()) continue;
    const Shape& whole = found->second.shape;
    const Matrix matrix = matrix_of(whole, tensor.input_dims);
    const int64_t outputs = matrix.outputs > 0 ? output_in_file(tensor, matrix.outputs - 1) + 1 : 0;
    const Shape shape = tensor.keeps_shape       ? whole
                        : tensor.input_dims == 0 ? Shape{outputs}
                        : tensor.transposed      ? Shape{outputs, matrix.inputs}
                                                 : Shape{matrix.inputs, outputs};
    const auto [place, is_new] = shapes.emplace(tensor.name, shape);
    if (is_new) continue;
    // The variable with the last outputs gives the extent.
    const int dim = tensor.input_dims > 0 && !tensor.transposed ? 1 : 0;
    if (shape[dim] > place->second[dim]) place->second = shape;
  }
  return shapes;
}

std::string list_text(const std::vector<std::string>& names) {
  std::vector<std::string> first(
      names.begin(),
      names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesInMessage)));
  std::string text = join(first, ", ");
  if (names.size() > first.size()) text += fmt::format(" and {} more", names.size() - first.size());
  return text;
}

/// The name of a tensor in these files: some lack the prefix, or have a former name.
std::string name_in(const TensorFiles& files, const ForeignNames& names, const std::string& name) {
  for (const auto& [now, former] : names.former) {
    const size_t at = name.find(now);
    if (files.find(name) || at == std::string::npos) continue;
    const std::string other = std::string(name).replace(at, now.size(), former);
    if (files.find(other)) return other;
  }
  if (files.find(name) || names.prefix.empty()) return name;
  if (name.starts_with(names.prefix)) {
    const std::string without = name.substr(names.prefix.size());
    return files.find(without) ? without : name;
  }
  const std::string with = names.prefix + name;
  return files.find(with) ? with : name;
}

double to_number(FileDType dtype, const std::byte* bytes) {
  const auto bits = [&]<typename T>(T value) {
    std::memcpy(&value, bytes, sizeof value);
    return value;
  };
  switch (dtype) {
    case FileDType::kF64: return bits(double{});
    case FileDType::kF32: return static_cast<double>(bits(float{}));
    case FileDType::kF16: return static_cast<double>(to_float(bits(Float16{})));
    case FileDType::kBF16: return static_cast<double>(to_float(bits(BFloat16{})));
    default: throw InternalError("an element type that was checked");
  }
}

bool is_number(FileDType dtype) {
  return dtype == FileDType::kF64 || dtype == FileDType::kF32 || dtype == FileDType::kF16 ||
         dtype == FileDType::kBF16;
}

/// The flat indices of the dims [begin, end) of a box.
std::vector<int64_t> indices_of(const Box& box, const Shape& whole, int begin, int end) {
  std::vector<int64_t> indices{0};
  for (int d = begin; d < end; ++d) {
    std::vector<int64_t> next;
    for (const int64_t index : indices)
      for (int64_t i = box.ranges[static_cast<size_t>(d)].begin;
           i < box.ranges[static_cast<size_t>(d)].end; ++i)
        next.push_back(index * whole[d] + i);
    indices = std::move(next);
  }
  return indices;
}

/// Reads elements of a matrix of a file by rows, several rows at once where all of them are read.
class MatrixReader {
 public:
  MatrixReader(const SafetensorsFile& file, const FileTensor& tensor, int64_t columns)
      : file_(file),
        tensor_(tensor),
        columns_(columns),
        size_(bits_of(tensor.dtype) / 8),
        rows_at_once_(std::max<int64_t>(1, kBytesOfRead / std::max<int64_t>(1, columns * size_))) {}

  /// The element of `row` at `column`, where [first, last] are the columns that are read of it.
  double at(int64_t row, int64_t column, int64_t first, int64_t last) {
    if (row < begin_ || row >= end_ || first < first_ || last > last_) load(row, first, last);
    return to_number(
        tensor_.dtype,
        buffer_.data() + ((row - begin_) * (last_ - first_ + 1) + column - first_) * size_);
  }

 private:
  void load(int64_t row, int64_t first, int64_t last) {
    const bool is_whole = first == 0 && last == columns_ - 1;
    const int64_t rows = tensor_.bytes() / (columns_ * size_);
    begin_ = row;
    end_ = is_whole ? std::min(rows, row + rows_at_once_) : row + 1;
    first_ = first;
    last_ = last;
    buffer_.resize(static_cast<size_t>((end_ - begin_) * (last - first + 1) * size_));
    file_.read(tensor_, (row * columns_ + first) * size_, buffer_);
  }

  const SafetensorsFile& file_;
  const FileTensor& tensor_;
  int64_t columns_, size_, rows_at_once_;
  int64_t begin_ = 0, end_ = 0, first_ = 0, last_ = -1;
  std::vector<std::byte> buffer_;
};

/// Fills a part of a variable from its tensor.
void load_part(const VariablePart& part, const SafetensorsFile& file, const FileTensor& stored,
               const ForeignTensor& names) {
  if (part.box.empty()) return;
  const int rank = part.whole.shape.size();
  const std::vector<int64_t> inputs = indices_of(part.box, part.whole.shape, 0, names.input_dims);
  std::vector<int64_t> outputs = indices_of(part.box, part.whole.shape, names.input_dims, rank);
  for (int64_t& output : outputs) output = output_in_file(names, output);
  const auto [low, high] = std::ranges::minmax(outputs);
  const int64_t columns = columns_of(names, part.whole.shape, element_count(stored.shape));
  MatrixReader reader(file, stored, columns);
  auto* elements = reinterpret_cast<float*>(part.data);
  const size_t count = outputs.size();
  if (names.transposed) {
    for (size_t o = 0; o < count; ++o)
      for (size_t i = 0; i < inputs.size(); ++i)
        elements[i * count + o] =
            static_cast<float>(reader.at(outputs[o], inputs[i], inputs.front(), inputs.back()));
    return;
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    for (size_t o = 0; o < count; ++o)
      elements[i * count + o] = static_cast<float>(reader.at(inputs[i], outputs[o], low, high));
}

/// Lists every tensor that is missing or differs.
void check_files(const TensorFiles& files, const ForeignNames& names,
                 const std::map<std::string, Shape>& shapes) {
  std::vector<std::string> missing, others;
  for (const auto& [theirs, shape] : shapes) {
    const std::string name = name_in(files, names, theirs);
    const SafetensorsFile* file = files.find(name);
    if (!file) {
      missing.push_back(name);
      continue;
    }
    const FileTensor& tensor = file->tensor(name);
    if (tensor.shape != shape)
      others.push_back(
          fmt::format("{} [{}] in place of [{}]", name, to_text(tensor.shape), to_text(shape)));
    else if (!is_number(tensor.dtype))
      others.push_back(fmt::format("{} of {}", name, to_text(tensor.dtype)));
  }
  if (missing.empty() && others.empty()) return;
  std::string what;
  if (!missing.empty()) what = fmt::format("lacks {}", list_text(missing));
  if (!others.empty())
    what += fmt::format("{}has {}", what.empty() ? "" : ", and ", list_text(others));
  throw UserError("'" + files.path().string() + "' " + what,
                  "the model has other parameters than the file",
                  "give the file of this model, or the model of this file", ExitCode::kBadData);
}

std::map<std::string, TensorType> trained_variables(const Graph& graph) {
  std::map<std::string, TensorType> variables;
  for (const Variable& variable : graph.variables())
    if (variable.trainable)
      variables.emplace(graph.value(variable.value).name, graph.type(variable.value));
  return variables;
}

/// A tensor of a file that is made of variables of a checkpoint.
class ForeignWriter {
 public:
  ForeignWriter(const Checkpoint& checkpoint, const std::map<std::string, TensorType>& variables,
                const ForeignNames& names)
      : checkpoint_(checkpoint), variables_(variables), names_(names) {}

  std::vector<float> elements(const std::string& name, const Shape& shape) const {
    std::vector<float> elements(static_cast<size_t>(element_count(shape)));
    for (const auto& [variable, tensor] : names_.by_variable)
      if (tensor.name == name && variables_.contains(variable))
        write(variable, tensor, shape, elements);
    return elements;
  }

 private:
  void write(const std::string& variable, const ForeignTensor& tensor, const Shape& shape,
             std::vector<float>& elements) const {
    const TensorType& type = variables_.at(variable);
    std::vector<float> values(static_cast<size_t>(element_count(type.shape)));
    checkpoint_.load_box(variable, whole_box(type.shape),
                         reinterpret_cast<std::byte*>(values.data()));
    const Matrix matrix = matrix_of(type.shape, tensor.input_dims);
    const int64_t columns = columns_of(tensor, type.shape, element_count(shape));
    for (int64_t i = 0; i < matrix.inputs; ++i)
      for (int64_t o = 0; o < matrix.outputs; ++o) {
        const int64_t output = output_in_file(tensor, o);
        const int64_t at = tensor.transposed ? output * columns + i : i * columns + output;
        elements[static_cast<size_t>(at)] = values[static_cast<size_t>(i * matrix.outputs + o)];
      }
  }

  const Checkpoint& checkpoint_;
  const std::map<std::string, TensorType>& variables_;
  const ForeignNames& names_;
};

/// Tensors by file, in order, each file of at most `limit` bytes or with one tensor.
std::vector<std::vector<std::pair<std::string, Shape>>> divided(
    const std::map<std::string, Shape>& shapes, Bytes limit) {
  std::vector<std::vector<std::pair<std::string, Shape>>> files(1);
  int64_t bytes = 0;
  for (const auto& [name, shape] : shapes) {
    const int64_t size = element_count(shape) * static_cast<int64_t>(sizeof(float));
    if (!files.back().empty() && bytes + size > limit.value()) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().emplace_back(name, shape);
    bytes += size;
  }
  return files;
}

}  // namespace

TensorFiles::TensorFiles(FileSystem& files, const fs::path& path) : path_(path) {
  std::vector<fs::path> paths{path};
  if (files.is_folder(path)) {
    paths = {path / kOneFile};
    if (path_exists(path / kIndexFile)) {
      const std::string index = (path / kIndexFile).string();
      const Document document = parse_json(read_file(index), index);
      const Document* map = document.is_table() ? document.find("weight_map") : nullptr;
      std::set<std::string> names;
      if (map && map->is_table())
        for (const auto& [tensor, file] : map->as_table())
          if (file.is_string() && fs::path(file.as_string()).filename() == file.as_string())
            names.insert(file.as_string());
      if (names.empty())
        throw UserError(index + " names no files",
                        "an index has a table weight_map from tensors to files beside it",
                        "get the index of the model again", ExitCode::kBadData);
      paths.clear();
      for (const std::string& name : names) paths.push_back(path / name);
    }
  }
  for (const fs::path& file : paths) {
    files_.push_back(std::make_unique<SafetensorsFile>(files, file));
    for (const FileTensor& tensor : files_.back()->header().tensors)
      by_name_.emplace(tensor.name, files_.back().get());
  }
}

const SafetensorsFile* TensorFiles::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : by_name_) names.push_back(name);
  return names;
}

ForeignNames own_names(const Graph& graph) {
  ForeignNames names;
  for (const auto& [name, type] : trained_variables(graph))
    names.by_variable[name] = {
        .name = name, .input_dims = std::max(0, type.shape.size() - 1), .keeps_shape = true};
  return names;
}

std::vector<std::string> load_foreign_parameters(Engine& engine, const TensorFiles& files,
                                                 const ForeignNames& names) {
  const std::map<std::string, TensorType> variables = trained_variables(engine.graph());
  for (const auto& [name, type] : variables) {
    ensure(type.dtype == DType::kF32, "parameters are f32");
    if (names.by_variable.contains(name)) continue;
    throw UserError(
        "'" + files.path().string() + "' has no tensor for the parameter '" + name + "'",
        "the model has parameters that files of this kind do not have",
        "load it from a checkpoint, or give a model of this kind", ExitCode::kBadData);
  }
  const std::map<std::string, Shape> shapes = shapes_of_files(variables, names);
  check_files(files, names, shapes);
  engine.runtime().on_every_rank([&](Rank, std::span<const VariablePart> held) {
    for (const VariablePart& part : held) {
      if (!variables.contains(part.name)) continue;
      const ForeignTensor& tensor = names.by_variable.at(part.name);
      const std::string name = name_in(files, names, tensor.name);
      const SafetensorsFile& file = *files.find(name);
      load_part(part, file, file.tensor(name), tensor);
      const size_t bytes = static_cast<size_t>(element_count(part.box.shape())) * sizeof(float);
      if (!all_finite(part.whole.dtype, {part.data, bytes}))
        throw UserError("'" + name + "' of '" + files.path().string() + "' is not finite",
                        "a value is infinite or not a number, or leaves the range of f32",
                        "get the file again", ExitCode::kBadData);
    }
  });
  for (const auto& [name, type] : variables) engine.runtime().mark_set(name);
  std::set<std::string> read;
  for (const auto& [theirs, shape] : shapes) read.insert(name_in(files, names, theirs));
  std::vector<std::string> unexpected;
  for (const std::string& name : files.names())
    if (!read.contains(name) &&
        std::ranges::none_of(names.ignored,
                             [&](const std::string& pattern) { return matches(pattern, name); }))
      unexpected.push_back(name);
  return unexpected;
}

void export_foreign_parameters(FileSystem& files, const Checkpoint& checkpoint,
                               const std::map<std::string, TensorType>& variables,
                               const ForeignNames& names, const fs::path& folder,
                               Bytes bytes_of_file) {
  const std::map<std::string, Shape> shapes = shapes_of_files(variables, names);
  const auto parts = divided(shapes, bytes_of_file);
  const ForeignWriter writer(checkpoint, variables, names);
  files.make_folder(folder);
  files.remove(folder / kIndexFile);
  Document index;
  index["metadata"]["total_size"] =
      std::accumulate(shapes.begin(), shapes.end(), int64_t{0}, [](int64_t sum, const auto& entry) {
        return sum + element_count(entry.second) * static_cast<int64_t>(sizeof(float));
      });
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string name =
        parts.size() == 1 ? std::string(kOneFile)
                          : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
    std::vector<std::vector<float>> values;
    std::vector<TensorToWrite> writes;
    for (const auto& [tensor, shape] : parts[i]) {
      values.push_back(writer.elements(tensor, shape));
      writes.push_back({tensor, FileDType::kF32, shape,
                        reinterpret_cast<const std::byte*>(values.back().data())});
      index["weight_map"][tensor] = name;
    }
    const fs::path aside = folder / (name + ".tmp");
    {
      const auto file = files.create(aside);
      write_safetensors(*file, std::move(writes), {{"format", "pt"}});
      file->sync();
    }
    files.rename(aside, folder / name);
  }
  files.sync_folder(folder);
  if (parts.size() > 1) write_file(folder / kIndexFile, to_json(index, 2) + "\n");
}

}  // namespace tessera
