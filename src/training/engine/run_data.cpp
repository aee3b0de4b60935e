#include "training/engine/run_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/models/graph_file.h"
#include "ir/models/graphs.h"

namespace tessera {
namespace {

constexpr int64_t kMaxCountedClasses = 1024;

using Paths = std::vector<std::filesystem::path>;

Paths paths_of(const DataConfig& config) {
  return {config.path.begin(), config.path.end()};
}

/// Consecutive tokens, cut into samples.
///   targets  of each token; nullptr: the tokens
RunData cut(const TokenSourcePtr& tokens, int64_t classes, const DataConfig& config,
            int64_t context, const TokenSourcePtr& targets = nullptr) {
  RunData data;
  const int64_t held = held_out_count(tokens->size(), config.held_out, context + 1);
  const int64_t middle = tokens->size() - held;
  const TokenSourcePtr train = tokens_of_range(tokens, {0, middle}),
                       held_out = tokens_of_range(tokens, {middle, tokens->size()});
  const auto targets_in = [&](Range range) {
    return targets ? tokens_of_range(targets, range) : nullptr;
  };
  data.classes = classes;
  // It is the loss of all tokens. Pairs of a large vocabulary need all of them in memory.
  if (!targets && (config.kind != "bin" || classes <= kMaxCountedClasses))
    data.baseline = BaselineLoss{"bigram_entropy", "bigram entropy of the held-out text",
                                 bigram_entropy(*held_out, static_cast<int>(classes))};
  data.train_units = train->size();
  data.held_out_units = held_out->size();
  const int64_t stride = config.stride > 0 ? config.stride : context;
  data.train = std::make_shared<const TextDataset>(train, context, stride, targets_in({0, middle}));
  data.held_out = std::make_shared<const TextDataset>(held_out, context, context,
                                                      targets_in({middle, tokens->size()}));
  return data;
}

/// Refuses text that is no text of characters, with the file.
void check_utf8(const TextFiles& files, std::string_view text) {
  const std::optional<size_t> place = first_not_utf8(text);
  if (!place) return;
  const auto [path, offset] = files.file_at(static_cast<int64_t>(*place));
  throw UserError(fmt::format("'{}' is not UTF-8: byte 0x{:02x} at offset {}", path.string(),
                              static_cast<uint8_t>(text[*place]), offset),
                  "data.tokens = \"characters\" reads text as UTF-8",
                  "convert the file to UTF-8, leave it out, or use data.tokens = \"bytes\"",
                  ExitCode::kBadData);
}

RunData load_text(const DataConfig& config, const DataRequest& request) {
  const auto files = std::make_shared<const TextFiles>(paths_of(config), config.max_bytes);
  Vocabulary vocabulary = request.vocabulary.value_or(Vocabulary::bytes());
  TokenSourcePtr tokens;
  if (config.tokens == "bytes" && vocabulary.symbols().empty()) {
    tokens = tokens_of_bytes(files);
  } else {
    const std::string text = files->text();
    check_utf8(*files, text);
    if (!request.vocabulary) vocabulary = Vocabulary::characters_of(text);
    tokens = tokens_in_memory(vocabulary.encode(text));
  }
  RunData data = cut(tokens, vocabulary.size(), config, request.context);
  data.vocabulary = std::move(vocabulary);
  data.left_out_bytes = files->left_out();
  return data;
}

RunData load_tokens(LabelledTokens all, const DataConfig& config, const DataRequest& request) {
  if (all.tokens.empty())
    throw UserError("the data has no tokens", "its files are empty",
                    "set data.path to files of tokens", ExitCode::kBadData);
  if (!all.targets.empty() && config.mask_block > 0)
    throw UserError("the lines of tokens have labels or masks, and data.mask_block is set",
                    "each of them says what is predicted", "remove data.mask_block, or the labels",
                    ExitCode::kBadData);
  int64_t classes = config.vocabulary;
  if (classes == 0) {
    classes = 1 + *std::ranges::max_element(all.tokens);
    for (const int32_t target : all.targets) classes = std::max<int64_t>(classes, target + 1);
  }
  const TokenSourcePtr targets =
      all.targets.empty() ? nullptr : tokens_in_memory(std::move(all.targets));
  return cut(tokens_in_memory(std::move(all.tokens)), classes, config, request.context, targets);
}

/// Independent samples, of which the last are held out.
RunData split_samples(DatasetPtr whole, int64_t classes, const DataConfig& config) {
  RunData data;
  const TensorType label = std::ranges::find(whole->fields(), kLabels, &Field::name)->type;
  DataSplit split = hold_out(std::move(whole), config.held_out);
  const bool of_tokens = split.train->fields().front().name == "tokens";
  data.unit = of_tokens ? "token" : label.shape.size() == 0 ? "image" : "pixel";
  data.classes = classes;
  data.train_units = split.train->samples() * element_count(label.shape);
  data.held_out_units = split.held_out->samples() * element_count(label.shape);
  data.train = std::move(split.train);
  data.held_out = std::move(split.held_out);
  return data;
}

RunData load_images(LabelledArrays arrays, const DataConfig& config, int64_t classes) {
  const auto images = std::make_shared<const ArrayImages>(
      std::move(arrays), classes, image_layout(config), config.ignore_label);
  return split_samples(images, images->classes(), config);
}

RunData load_npy(const DataConfig& config, const DataRequest& request) {
  if (config.path.empty())
    return load_images({read_npy(config.images), read_npy(config.labels)}, config, config.classes);
  LabelledTokens all;
  for (const std::string& file : config.path) {
    const std::vector<int32_t> more = tokens_of(read_npy(file), config.vocabulary);
    all.tokens.insert(all.tokens.end(), more.begin(), more.end());
  }
  return load_tokens(std::move(all), config, request);
}

/// The largest of the tokens, which are all below the limit of vocabularies.
int64_t largest_token(const TokenSource& tokens) {
  constexpr int32_t kLimit = 1 << 24;
  int32_t largest = 0;
  int64_t place = 0;
  for_each_block(tokens, [&](std::span<const int32_t> block) {
    for (const int32_t token : block) {
      if (token < 0 || token >= kLimit)
        throw UserError(fmt::format("token {} of the data is {}", place, token),
                        fmt::format("tokens are at least 0 and below {}", kLimit),
                        "set data.bits to those of the files", ExitCode::kBadData);
      largest = std::max(largest, token);
      ++place;
    }
  });
  return largest;
}

RunData load_numbers(const DataConfig& config, const DataRequest& request) {
  const TokenSourcePtr tokens = tokens_of_numbers(paths_of(config), static_cast<int>(config.bits));
  if (tokens->size() == 0)
    throw UserError("the data has no tokens", "its files are empty",
                    "set data.path to files of tokens", ExitCode::kBadData);
  const int64_t largest = largest_token(*tokens);
  if (config.vocabulary > 0 && largest >= config.vocabulary)
    throw UserError(fmt::format("the data has the token {}, and data.vocabulary is {}", largest,
                                config.vocabulary),
                    "tokens are below the vocabulary",
                    fmt::format("set data.vocabulary to at least {}", largest + 1),
                    ExitCode::kBadData);
  return cut(tokens, config.vocabulary > 0 ? config.vocabulary : largest + 1, config,
             request.context);
}

RunData draw_markov(const DataConfig& config, const DataRequest& request) {
  const MarkovChain chain(config.states, config.seed);
  RunData data = split_samples(
      std::make_shared<const MarkovDataset>(chain, request.context, config.samples, config.seed),
      config.states, config);
  data.baseline =
      config.mask_block > 0
          ? BaselineLoss{"masked_entropy", "entropy of a masked token between its neighbours",
                         chain.masked_entropy()}
          : BaselineLoss{"entropy_rate", "entropy rate of the chain", chain.entropy_rate()};
  return data;
}

DrawingOptions drawing(const DataConfig& config) {
  return {
      .samples = config.samples, .size = config.size, .noise = config.noise, .seed = config.seed};
}

RunData load_kind(const DataConfig& config, const DataRequest& request) {
  if (config.kind == "text") return load_text(config, request);
  if (config.kind == "jsonl")
    return load_tokens(read_token_lines(paths_of(config), config.vocabulary, config.ignore_label),
                       config, request);
  if (config.kind == "bin") return load_numbers(config, request);
  if (config.kind == "npy") return load_npy(config, request);
  if (config.kind == "idx")
    return load_images({read_idx(config.images), read_idx(config.labels)}, config, config.classes);
  const int64_t cifar = config.classes > 0 ? config.classes : 10;
  if (config.kind == "cifar")
    return load_images(read_cifar(paths_of(config), cifar), config, cifar);
  if (config.kind == "markov") return draw_markov(config, request);
  if (config.kind == "digits")
    return split_samples(std::make_shared<const DrawnDigits>(drawing(config)), kDigitClasses,
                         config);
  if (config.kind == "shapes")
    return split_samples(std::make_shared<const DrawnShapes>(drawing(config)), kShapeClasses,
                         config);
  throw InternalError("unknown kind of data '" + config.kind + "'");
}

/// Adds to the message of a missing file where its path starts.
RunData load_named(const DataConfig& config, const DataRequest& request) {
  try {
    return load_kind(config, request);
  } catch (const UserError& error) {
    const bool says_it = config.kind == "text";
    if (says_it || error.exit_code() != ExitCode::kMissingInput) throw;
    throw UserError(error.what_happened(), error.why(),
                    error.fix() +
                        "; a relative path starts at the folder in which the program "
                        "was started",
                    error.exit_code());
  }
}

/// Masks tokens. The mask is the token after all others.
void mask(RunData& data, const DataConfig& config) {
  const auto token = static_cast<int32_t>(data.classes++);
  data.train =
      std::make_shared<const MaskedTokens>(data.train, config.mask_block, token, config.seed);
  data.held_out = std::make_shared<const MaskedTokens>(data.held_out, config.mask_block, token,
                                                       config.seed + 1);
  if (config.kind != "markov") data.baseline.reset();  // a model that sees both sides may do better
}

std::string field_text(const std::vector<Field>& fields) {
  std::vector<std::string> words;
  for (const Field& field : fields) words.push_back(field.name + " " + to_text(field.type));
  return fmt::format("{}", fmt::join(words, ", "));
}

/// The vocabulary, where the settings give it without the data.
std::optional<int64_t> known_vocabulary(const ModelConfig& model, const DataConfig& data) {
  if (is_of_images(objective_of(model))) return std::nullopt;
  if (model.given_vocabulary > 0) return model.given_vocabulary;
  const int64_t masks = data.mask_block > 0 ? 1 : 0;
  if (data.kind == "text" && data.tokens == "bytes") return Vocabulary::bytes().size() + masks;
  if (data.kind == "markov") return data.states + masks;
  const bool is_given =
      (data.kind == "npy" || data.kind == "jsonl" || data.kind == "bin") && data.vocabulary > 0;
  return is_given ? std::optional(data.vocabulary + masks) : std::nullopt;
}

/// Checks that labels and tokens are in the range of a model whose sizes are fixed.
void check_classes(const ModelConfig& model, const RunData& data) {
  const GraphSizes& sizes = model.graph->sizes;
  const int64_t known = sizes.classes > 0 ? sizes.classes : sizes.vocabulary;
  if (known == 0 || data.classes <= known) return;
  throw UserError(fmt::format("the data has {} classes or tokens, and {} has {}", data.classes,
                              model.graph->network.name, known),
                  "a graph file has fixed sizes, and a label has to be one of its classes",
                  "choose data with fewer, or write the graph for as many", ExitCode::kBadConfig);
}

}  // namespace

ImageLayout image_layout(const DataConfig& config) {
  return config.layout == "nchw"   ? ImageLayout::kChannelsFirst
         : config.layout == "nhwc" ? ImageLayout::kChannelsLast
                                   : ImageLayout::kUnknown;
}

std::shared_ptr<const RunData> data_of(DatasetPtr whole, double held_out, std::string unit) {
  RunData data;
  DataSplit split = hold_out(std::move(whole), held_out);
  data.is_text = false;
  data.train = std::move(split.train);
  data.held_out = std::move(split.held_out);
  data.unit = std::move(unit);
  data.train_units = data.train->samples();
  data.held_out_units = data.held_out->samples();
  return std::make_shared<const RunData>(std::move(data));
}

RunData load_data(const DataConfig& config, const DataRequest& request) {
  check_has_files(config, "the configuration");
  RunData data = load_named(config, request);
  data.is_text = config.kind == "text" && config.mask_block == 0;
  if (config.mask_block > 0) mask(data, config);
  return data;
}

void set_sizes(ModelConfig& model, const RunData& data) {
  if (model.graph) {
    check_classes(model, data);
    return;
  }
  if (!is_of_images(objective_of(model))) {
    if (model.given_vocabulary > 0 && model.given_vocabulary != data.classes)
      throw UserError(
          fmt::format("model.vocabulary = {} is not that of the data, which is {}",
                      model.given_vocabulary, data.classes),
          "the data of a run gives the vocabulary; the key stands for it where no data is read: in "
          "plan, simulate and explain",
          fmt::format("remove model.vocabulary, or set it to {}", data.classes),
          ExitCode::kBadConfig);
    model.vocabulary = data.classes;
    return;
  }
  model.classes = data.classes;
  const Field& samples = data.train->fields().front();
  if (samples.type.shape.size() == 3)
    model.image = {samples.type.shape[0], samples.type.shape[1], samples.type.shape[2]};
}

void set_sizes(ModelConfig& model, const DataConfig& data) {
  if (model.graph) return;
  if (const std::optional<int64_t> vocabulary = known_vocabulary(model, data))
    model.vocabulary = *vocabulary;
  else
    set_sizes(model, load_data(data, {.context = model.context}));
}

void check_fits(const Graph& graph, const Network& network, const Dataset& data) {
  for (const std::string& name : data_inputs(graph)) {
    const TensorType& whole = graph.type(*graph.find_value(name));
    const TensorType wanted{
        whole.dtype, Shape(std::span<const int64_t>(whole.shape.begin() + 1, whole.shape.end()))};
    if (std::ranges::find(data.fields(), Field{name, wanted}) != data.fields().end()) continue;
    throw UserError("the data does not fit " + network.name,
                    fmt::format("{} takes samples with {} {}; the data has {}",
                                network.learns.empty() ? "it" : "for " + network.learns + " it",
                                name, to_text(wanted), field_text(data.fields())),
                    "choose data of such samples (in a configuration: data.kind), or another model",
                    ExitCode::kBadConfig);
  }
}

void check_fits(const RunConfig& config) {
  const Objective objective = objective_of(config.model);
  const bool is_masked = config.data.mask_block > 0;
  if (is_of_images(objective) || objective == Objective::kOther ||
      is_masked == (objective == Objective::kMaskedToken))
    return;
  throw UserError(
      fmt::format("{}: data.mask_block = {} does not fit a model of kind {}", config.file,
                  config.data.mask_block, config.model.kind),
      fmt::format("the model learns {}, and the data asks for {}", learned_by(objective),
                  learned_by(is_masked ? Objective::kMaskedToken : Objective::kNextToken)),
      is_masked ? "remove data.mask_block"
                : "set data.mask_block to the places of which one is masked, such as 6",
      ExitCode::kBadConfig);
}

}  // namespace tessera
