#include "training/config/internal/key_aliases.h"

#include <vector>

#include "base/files/config_table.h"

namespace tessera {
namespace {

/// The keys of one table that belong elsewhere or have another name here, and those of what does
/// not exist here.
struct AliasTable {
  std::string name;
  std::vector<KeyAlias> keys;
  std::vector<ForeignKey> foreign = {};
};

constexpr std::string_view kNoGpu =
    "training runs on the cores of CPUs; of GPUs Tessera only plans and predicts a step, with "
    "--cluster";
constexpr std::string_view kVocabularyNote =
    "only plan, simulate and explain need it, where no data is read; in a run the data gives it";
constexpr std::string_view kNoTokenizer =
    "texts are read as bytes or as characters; there is no other tokenizer";
constexpr std::string_view kOwnTokens =
    "set data.tokens to \"bytes\" or \"characters\", or write the tokens of another tokenizer to "
    "a .npy file and set data.kind = \"npy\"";
constexpr std::string_view kNoLogger =
    "a run with --out DIR writes metrics.jsonl and TensorBoard events there, and nothing else";
constexpr std::string_view kUseOut = "remove it, and give --out DIR";

constexpr std::string_view kEpochNote = "an epoch has samples / train.batch steps";

/// The keys outside of all tables.
const std::vector<KeyAlias>& outer_keys() {
  static const std::vector<KeyAlias> kKeys = {
      {"optim", "[optimizer]"},
      {"training", "[train]"},
      {"dataset", "[data]"},
      {"network", "[model]"},
      {"kind", "model.kind"},
      {"width", "model.width"},
      {"layers", "model.layers"},
      {"heads", "model.heads"},
      {"context", "model.context"},
      {"path", "data.path"},
      {"lr", "optimizer.learning_rate"},
      {"learning_rate", "optimizer.learning_rate"},
      {"steps", "train.steps"},
      {"max_steps", "train.steps"},
      {"epochs", "train.steps", kEpochNote},
      {"seed", "train.seed"},
      {"batch", "train.batch"},
      {"batch_size", "train.batch", "it counts the rows of a step over all ranks"},
      {"micro_batches", "parallel.micro_batches"}};
  return kKeys;
}

const std::vector<ForeignKey>& outer_foreign_keys() {
  static const std::vector<ForeignKey> kKeys = {{"device", kNoGpu, "remove it"},
                                                {"tokenizer", kNoTokenizer, kOwnTokens},
                                                {"wandb", kNoLogger, kUseOut},
                                                {"logging", kNoLogger, kUseOut}};
  return kKeys;
}

const std::vector<AliasTable>& alias_tables() {
  static const std::vector<AliasTable> kTables = {
      {"train",
       {{"lr", "optimizer.learning_rate"},
        {"learning_rate", "optimizer.learning_rate"},
        {"epochs", "train.steps", kEpochNote},
        {"num_epochs", "train.steps", kEpochNote},
        {"max_steps", "train.steps"},
        {"iterations", "train.steps"},
        {"batch_size", "train.batch", "it counts the rows of a step over all ranks"},
        {"global_batch_size", "train.batch"},
        {"micro_batch_size", "parallel.micro_batches", "it is their number, not their size"},
        {"micro_batches", "parallel.micro_batches"},
        {"gradient_accumulation", "parallel.accumulate"},
        {"gradient_accumulation_steps", "parallel.accumulate"},
        {"early_stopping", "train.patience"},
        {"early_stopping_patience", "train.patience"},
        {"optimizer", "optimizer.kind"},
        {"weight_decay", "optimizer.weight_decay"},
        {"eval_every", "train.evaluate_every"},
        {"dtype", "train.precision"},
        {"mixed_precision", "train.precision"},
        {"save_every", "checkpoint.every"}},
       {{"device", kNoGpu, "remove it"},
        {"devices", kNoGpu, "remove it; --ranks N is the number of ranks"},
        {"gpus", kNoGpu, "remove it; --ranks N is the number of ranks"},
        {"accelerator", kNoGpu, "remove it"},
        {"wandb", kNoLogger, kUseOut},
        {"logger", kNoLogger, kUseOut}}},
      {"optimizer",
       {{"lr", "optimizer.learning_rate"},
        {"name", "optimizer.kind"},
        {"type", "optimizer.kind"},
        {"eps", "optimizer.epsilon"},
        {"wd", "optimizer.weight_decay"},
        {"grad_clip", "optimizer.clip_norm"},
        {"max_grad_norm", "optimizer.clip_norm"},
        {"warmup_steps", "optimizer.warmup"},
        {"scheduler", "optimizer.schedule"},
        {"lr_scheduler", "optimizer.schedule"},
        {"betas", "optimizer.beta1 and optimizer.beta2"}}},
      {"model",
       {{"name", "model.kind"},
        {"type", "model.kind"},
        {"n_layer", "model.layers"},
        {"num_layers", "model.layers"},
        {"n_head", "model.heads"},
        {"num_heads", "model.heads"},
        {"n_embd", "model.width"},
        {"hidden_size", "model.width"},
        {"d_model", "model.width"},
        {"dim", "model.width"},
        {"block_size", "model.context"},
        {"seq_len", "model.context"},
        {"max_seq_len", "model.context"},
        {"vocab_size", "model.vocabulary", kVocabularyNote},
        {"n_vocab", "model.vocabulary", kVocabularyNote}},
       {{"device", kNoGpu, "remove it"},
        {"tokenizer", kNoTokenizer, kOwnTokens},
        {"experts", "there are no mixtures of experts", "remove it"},
        {"num_experts", "there are no mixtures of experts", "remove it"}}},
      {"data",
       {{"batch_size", "train.batch", "it counts the rows of a step over all ranks"},
        {"type", "data.kind"},
        {"seq_len", "model.context"},
        {"vocab_size", "data.vocabulary"}},
       {{"tokenizer", kNoTokenizer, kOwnTokens},
        {"tokenizer_path", kNoTokenizer, kOwnTokens},
        {"vocab_file", kNoTokenizer, kOwnTokens}}},
      {"checkpoint",
       {{"save_every", "checkpoint.every"},
        {"interval", "checkpoint.every"},
        {"keep", "checkpoint.keep_last"}}}};
  return kTables;
}

}  // namespace

void refuse_key_aliases(const Document& document, const ConfigOrigin& origin) {
  ConfigTable(&document, "", origin).refuse_alias(outer_keys());
  ConfigTable(&document, "", origin).refuse_foreign(outer_foreign_keys());
  for (const AliasTable& table : alias_tables()) {
    const Document* found = document.find(table.name);
    if (!found || !found->is_table()) continue;
    ConfigTable(found, table.name, origin).refuse_alias(table.keys);
    ConfigTable(found, table.name, origin).refuse_foreign(table.foreign);
  }
}

}  // namespace tessera
