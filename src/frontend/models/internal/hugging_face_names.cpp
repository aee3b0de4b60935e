#include "frontend/models/internal/hugging_face_names.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

/// The parameters of a linear layer, of attention or of the feed-forward, in torch.nn's layout.
struct LinearNames {
  const char* ours;
  const char* theirs;
  int input_dims = 1;
  int64_t first = 0, group = 0, stride = 0;  // as in ForeignTensor
};

/// Fills the names of one model.
class Names {
 public:
  Names(const ModelConfig& model, std::string prefix, std::string layers)
      : layers_(std::move(layers)), count_(model.layers) {
    names.prefix = std::move(prefix);
  }

  /// A tensor that is the same in both: an embedding, or a vector.
  void same(const std::string& ours, const std::string& theirs, int input_dims) {
    names.by_variable[ours] = {.name = theirs, .input_dims = input_dims};
  }
  void embedding(const std::string& ours, const std::string& theirs) {
    same(ours + ".weight", theirs + ".weight", 1);
  }
  void norm(const std::string& ours, const std::string& theirs) {
    same(ours + ".weight", theirs + ".weight", 0);
    same(ours + ".bias", theirs + ".bias", 0);
  }
  void linear(const std::string& ours, const std::string& theirs, bool transposed = true) {
    names.by_variable[ours + ".weight"] = {
        .name = theirs + ".weight", .input_dims = 1, .transposed = transposed};
    same(ours + ".bias", theirs + ".bias", 0);
  }
  void norms_of_layers(std::initializer_list<std::pair<const char*, const char*>> pairs) {
    for_layers([&](const std::string& ours, const std::string& theirs) {
      for (const auto& [mine, other] : pairs) norm(ours + mine, theirs + other);
    });
  }
  void linears_of_layers(std::initializer_list<LinearNames> list, bool transposed = true) {
    for_layers([&](const std::string& ours, const std::string& theirs) {
      for (const LinearNames& each : list) {
        const std::string mine = ours + each.ours, other = theirs + each.theirs;
        names.by_variable[mine + ".weight"] = {.name = other + ".weight",
                                               .input_dims = each.input_dims,
                                               .transposed = transposed,
                                               .first = each.first,
                                               .group = each.group,
                                               .stride = each.stride};
        names.by_variable[mine + ".bias"] = {.name = other + ".bias",
                                             .first = each.first,
                                             .group = each.group,
                                             .stride = each.stride};
      }
    });
  }

  ForeignNames names;

 private:
  template <typename Add>
  void for_layers(const Add& add) {
    for (int64_t layer = 0; layer < count_; ++layer) {
      const std::string number = std::to_string(layer);
      add("blocks." + number + ".", layers_ + "." + number + ".");
    }
  }

  std::string layers_;
  int64_t count_;
};

ForeignNames llama(const ModelConfig& model) {
  Names names(model, "model.", "model.layers");
  names.embedding("tokens", "model.embed_tokens");
  names.norms_of_layers({{"norm1", "input_layernorm"},
                         {"norm2", "post_attention_layernorm"},
                         {"attn.q_norm", "self_attn.q_norm"},
                         {"attn.k_norm", "self_attn.k_norm"}});
  names.linears_of_layers({{"attn.q", "self_attn.q_proj"},
                           {"attn.k", "self_attn.k_proj"},
                           {"attn.v", "self_attn.v_proj"},
                           {"attn.out", "self_attn.o_proj", 2},
                           {"ffn.gate", "mlp.gate_proj"},
                           {"ffn.up", "mlp.up_proj"},
                           {"ffn.down", "mlp.down_proj"}});
  names.norm("norm", "model.norm");
  names.linear("head", "lm_head");
  names.names.ignored = {"*.rotary_emb.inv_freq"};
  return names.names;
}

/// Queries, keys and values are the rows of one tensor, gate and up of another one.
ForeignNames phi3(const ModelConfig& model) {
  Names names(model, "model.", "model.layers");
  const int64_t queries = model.heads * model.head, keys = model.kv_heads * model.head;
  names.names = llama(model);
  names.linears_of_layers({{"attn.q", "self_attn.qkv_proj"},
                           {"attn.k", "self_attn.qkv_proj", 1, queries},
                           {"attn.v", "self_attn.qkv_proj", 1, queries + keys},
                           {"ffn.gate", "mlp.gate_up_proj"},
                           {"ffn.up", "mlp.gate_up_proj", 1, model.ffn}});
  return names.names;
}

/// The three rows of a head follow each other.
ForeignNames gpt_neox(const ModelConfig& model) {
  Names names(model, "gpt_neox.", "gpt_neox.layers");
  const int64_t head = model.head;
  names.embedding("tokens", "gpt_neox.embed_in");
  names.norms_of_layers({{"norm1", "input_layernorm"}, {"norm2", "post_attention_layernorm"}});
  names.linears_of_layers({{"attn.q", "attention.query_key_value", 1, 0, head, 3 * head},
                           {"attn.k", "attention.query_key_value", 1, head, head, 3 * head},
                           {"attn.v", "attention.query_key_value", 1, 2 * head, head, 3 * head},
                           {"attn.out", "attention.dense", 2},
                           {"ffn.up", "mlp.dense_h_to_4h"},
                           {"ffn.down", "mlp.dense_4h_to_h"}});
  names.norm("norm", "gpt_neox.final_layer_norm");
  names.linear("head", "lm_head");
  names.names.former = {{"lm_head", "embed_out"}};
  names.names.ignored = {"*.rotary_emb.inv_freq", "*.attention.bias", "*.attention.masked_bias"};
  return names.names;
}

/// Its linear layers have weights [in, out].
ForeignNames gpt2(const ModelConfig& model) {
  Names names(model, "transformer.", "transformer.h");
  const int64_t width = model.width;
  names.embedding("tokens", "transformer.wte");
  names.embedding("positions", "transformer.wpe");
  names.norms_of_layers({{"norm1", "ln_1"}, {"norm2", "ln_2"}});
  names.linears_of_layers({{"attn.q", "attn.c_attn"},
                           {"attn.k", "attn.c_attn", 1, width},
                           {"attn.v", "attn.c_attn", 1, 2 * width},
                           {"attn.out", "attn.c_proj", 2},
                           {"ffn.up", "mlp.c_fc"},
                           {"ffn.down", "mlp.c_proj"}},
                          false);
  names.norm("norm", "transformer.ln_f");
  names.linear("head", "lm_head");
  names.names.ignored = {"*.attn.bias", "*.attn.masked_bias"};
  return names.names;
}

ForeignNames opt(const ModelConfig& model) {
  Names names(model, "model.", "model.decoder.layers");
  names.embedding("tokens", "model.decoder.embed_tokens");
  names.embedding("positions", "model.decoder.embed_positions");
  names.norms_of_layers({{"norm1", "self_attn_layer_norm"}, {"norm2", "final_layer_norm"}});
  names.linears_of_layers({{"attn.q", "self_attn.q_proj"},
                           {"attn.k", "self_attn.k_proj"},
                           {"attn.v", "self_attn.v_proj"},
                           {"attn.out", "self_attn.out_proj", 2},
                           {"ffn.up", "fc1"},
                           {"ffn.down", "fc2"}});
  names.norm("norm", "model.decoder.final_layer_norm");
  names.linear("head", "lm_head");
  return names.names;
}

ForeignNames bert(const ModelConfig& model) {
  Names names(model, "bert.", "bert.encoder.layer");
  names.embedding("tokens", "bert.embeddings.word_embeddings");
  names.embedding("positions", "bert.embeddings.position_embeddings");
  names.embedding("types", "bert.embeddings.token_type_embeddings");
  names.norm("embedding_norm", "bert.embeddings.LayerNorm");
  names.norms_of_layers({{"norm1", "attention.output.LayerNorm"}, {"norm2", "output.LayerNorm"}});
  names.linears_of_layers({{"attn.q", "attention.self.query"},
                           {"attn.k", "attention.self.key"},
                           {"attn.v", "attention.self.value"},
                           {"attn.out", "attention.output.dense", 2},
                           {"ffn.up", "intermediate.dense"},
                           {"ffn.down", "output.dense"}});
  names.linear("transform.dense", "cls.predictions.transform.dense");
  names.norm("transform.norm", "cls.predictions.transform.LayerNorm");
  names.linear("head", "cls.predictions.decoder");
  names.same("head.bias", "cls.predictions.bias", 0);
  names.names.former = {{"LayerNorm.weight", "LayerNorm.gamma"},
                        {"LayerNorm.bias", "LayerNorm.beta"}};
  names.names.ignored = {"cls.predictions.decoder.*", "cls.seq_relationship.*", "bert.pooler.*",
                         "*.position_ids"};
  return names.names;
}

struct KindNames {
  std::string_view type;
  ForeignNames (*names)(const ModelConfig& model);
};
constexpr KindNames kKindNames[] = {
    {"gpt2", gpt2},   {"llama", llama}, {"mistral", llama},     {"qwen2", llama}, {"qwen3", llama},
    {"gemma", llama}, {"phi3", phi3},   {"gpt_neox", gpt_neox}, {"opt", opt},     {"bert", bert}};

}  // namespace

ForeignNames hugging_face_names(std::string_view model_type, const ModelConfig& model) {
  for (const KindNames& kind : kKindNames)
    if (kind.type == model_type) {
      ForeignNames names = kind.names(with_defaults(model));
      // A tied head is a second name of the embedding.
      if (model.tied) {
        names.ignored.emplace_back("lm_head.*");
        names.ignored.emplace_back("embed_out.*");
      }
      return names;
    }
  throw InternalError("a type of models that is read has names");
}

}  // namespace tessera
