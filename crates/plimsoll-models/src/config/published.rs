//! Published configurations of models, reduced to the fields that decide the cache, and the bytes
//! that vLLM keeps for one token in 16-bit floats and for one request.

use super::shape;
use crate::shape::Cache;

/// Returns the bytes per token of layers with full attention, per token of layers with a window,
/// and per request; or the missing field.
fn bytes(config: &str) -> Result<(u64, u64, u64), String> {
    let shape = shape::read(format!("{{{config}}}").as_bytes()).expect("reads the config");
    let Some(layers) = shape.layers.get() else { return Err(shape.layers.source().to_string()) };
    let mut sums = (0, 0, 0);
    for layer in layers {
        match *layer {
            Cache::Grouped { kv_heads, key_length, value_length, window } => {
                let bytes = 2 * kv_heads * (key_length + value_length);
                let sum = if window.is_some() { &mut sums.1 } else { &mut sums.0 };
                *sum += bytes;
            }
            Cache::Latent { kv_lora_rank, rope_length, indexer_length, .. } => {
                sums.0 += 2 * (kv_lora_rank + rope_length) + indexer_length;
            }
            Cache::Recurrent { bytes } => sums.2 += bytes,
            Cache::GroupedWithState { kv_heads, key_length, value_length, state } => {
                sums.0 += 2 * kv_heads * (key_length + value_length);
                sums.2 += state.get();
            }
            Cache::GroupedWithIndexer { kv_heads, key_length, value_length, indexer_length } => {
                sums.0 += 2 * (kv_heads * (key_length + value_length) + indexer_length);
            }
            Cache::Shared { .. } | Cache::None => {}
            other => panic!("no model type keeps {other:?}"),
        }
    }
    Ok(sums)
}

fn grouped(model_type: &str, layers: u64, hidden: u64, heads: u64, kv_heads: u64) -> String {
    format!(
        r#""model_type":"{model_type}","num_hidden_layers":{layers},"hidden_size":{hidden},
        "num_attention_heads":{heads},"num_key_value_heads":{kv_heads}"#
    )
}

fn nested(part: &str, text: &str) -> String {
    format!(r#""model_type":"outer","{part}":{{{text}}}"#)
}

#[test]
fn plain_attention_is_read_from_the_fields_of_its_class() {
    for (name, config, per_token) in [
        ("SmolLM3 3B", grouped("smollm3", 36, 2048, 16, 4), 36 * 4 * 256 * 2),
        ("Seed-OSS 36B", grouped("seed_oss", 64, 5120, 80, 8), 64 * 8 * 256 * 2),
        ("GLM-4 32B", grouped("glm4", 61, 6144, 48, 2), 61 * 2 * 256 * 2),
        ("MiniMax-M2", grouped("minimax_m2", 62, 3072, 48, 8), 62 * 8 * 256 * 2),
        ("ERNIE 4.5 21B", grouped("ernie4_5_moe", 28, 2560, 20, 4), 28 * 4 * 256 * 2),
        ("Hunyuan 7B", grouped("hunyuan_v1_dense", 32, 4096, 32, 8), 32 * 8 * 256 * 2),
        ("Apertus 8B", grouped("apertus", 32, 4096, 32, 8), 32 * 8 * 256 * 2),
        ("dots.llm1", grouped("dots1", 62, 4096, 32, 32), 62 * 32 * 256 * 2),
        ("Granite 3.1 3B A800M", grouped("granitemoe", 32, 1536, 24, 8), 32 * 8 * 128 * 2),
        ("InternLM3 8B", grouped("internlm3", 48, 4096, 32, 2), 48 * 2 * 256 * 2),
        ("Hunyuan 3", grouped("hy_v3", 80, 4096, 64, 8), 80 * 8 * 256 * 2),
        ("GLM-4 9B", grouped("glm", 40, 4096, 32, 2), 40 * 2 * 256 * 2),
        (
            "Pythia 12B",
            r#""model_type":"gpt_neox","num_hidden_layers":36,"hidden_size":5120,
            "num_attention_heads":40"#
                .to_string(),
            36 * 40 * 256 * 2,
        ),
        (
            "Qwen3-Omni 30B A3B",
            format!(
                r#""thinker_config":{{"text_config":{{"head_dim":128,{}}}}}"#,
                grouped("qwen3_omni_moe_text", 48, 2048, 32, 4)
            ),
            48 * 4 * 256 * 2,
        ),
        ("Ling 2 mini", grouped("bailing_moe_v2", 20, 2048, 16, 4), 20 * 4 * 256 * 2),
        (
            "Step 3.5 Flash",
            r#""model_type":"step3p5","num_hidden_layers":4,"hidden_size":4096,"head_dim":128,
            "num_attention_heads":64,"num_attention_groups":8"#
                .to_string(),
            4 * 8 * 256 * 2,
        ),
        (
            "Ministral 3",
            nested("text_config", &grouped("ministral3", 34, 4096, 32, 8)),
            34 * 8 * 512,
        ),
        (
            "Qwen3-VL 8B",
            nested("text_config", &grouped("qwen3_vl_text", 36, 4096, 32, 8)),
            36 * 8 * 512,
        ),
        ("Qwen2.5-VL 7B, flat", grouped("qwen2_5_vl", 28, 3584, 28, 4), 28 * 4 * 256 * 2),
        (
            "InternVL3 8B",
            nested("llm_config", &grouped("qwen2", 28, 3584, 28, 4)),
            28 * 4 * 256 * 2,
        ),
        (
            "Qwen2.5-Omni 7B",
            format!(
                r#""thinker_config":{{"text_config":{{{}}}}}"#,
                grouped("qwen2_5_omni_text", 28, 3584, 28, 4)
            ),
            28 * 4 * 256 * 2,
        ),
        (
            "GPT-2",
            r#""model_type":"gpt2","n_layer":12,"n_head":12,"n_embd":768"#.to_string(),
            12 * 12 * 128 * 2,
        ),
        (
            "Falcon 7B",
            r#""model_type":"falcon","num_hidden_layers":32,"hidden_size":4544,
            "num_attention_heads":71,"multi_query":true,"new_decoder_architecture":false"#
                .to_string(),
            32 * 128 * 2,
        ),
    ] {
        assert_eq!(bytes(&config), Ok((per_token, 0, 0)), "{name}");
    }
}

#[test]
fn latent_attention_is_read_with_its_indexer() {
    let latent = |model_type: &str, layers: u64, indexer: &str| {
        format!(
            r#""model_type":"{model_type}","num_hidden_layers":{layers},"kv_lora_rank":512,
            "qk_rope_head_dim":64{indexer}"#
        )
    };
    let indexer = r#","index_head_dim":128"#;
    for (name, config, per_token) in [
        ("Kimi K2", latent("kimi_k2", 61, ""), 61 * 1152),
        ("Kimi K2.5", nested("text_config", &latent("kimi_k2", 61, "")), 61 * 1152),
        ("GLM-4.7-Flash", latent("glm4_moe_lite", 47, ""), 47 * 1152),
        ("DeepSeek V3.2", latent("deepseek_v32", 61, indexer), 61 * (1152 + 128)),
        ("GLM-5", latent("glm_moe_dsa", 78, indexer), 78 * (1152 + 128)),
    ] {
        assert_eq!(bytes(&config), Ok((per_token, 0, 0)), "{name}");
    }
}

#[test]
fn sparse_attention_is_read_with_the_keys_of_its_indexers() {
    let m3 = format!(
        r#"{},"head_dim":128,"sparse_attention_config":{{"sparse_index_dim":128,
        "sparse_attention_freq":[0,1,1]}}"#,
        grouped("minimax_m3_text", 3, 6144, 64, 4)
    );
    assert_eq!(bytes(&nested("text_config", &m3)), Ok((3 * 4 * 512 + 2 * 256, 0, 0)));
    let glm = r#""model_type":"glm5_next_text","num_hidden_layers":4,"kv_lora_rank":512,
        "qk_rope_head_dim":0,"index_head_dim":128,"index_kpool":16,"linear_num_heads":64,
        "linear_head_dim":128,"linear_conv_kernel_dim":4,"layer_types":["linear_attention",
        "linear_attention","linear_attention","indexed_attention"]"#;
    let state = 2 * 4 * (3 * 8192 * 3 + 8192 * 128);
    assert_eq!(bytes(&nested("text_config", glm)), Ok((1024 + 8, 0, 3 * state)));
}

/// The row of a state has 2048 floats in layers without an indexer, else 2560.
#[test]
fn compressed_keys_are_read_from_ratios_or_from_the_kinds_of_the_layers() {
    let v4 = |kinds: &str| {
        let config = format!(
            r#"{{"model_type":"deepseek_v4","num_hidden_layers":3,"head_dim":512,
            "sliding_window":128,"index_head_dim":128,{kinds}}}"#
        );
        let shape = shape::read(config.as_bytes()).expect("reads the config");
        shape.layers.get().cloned().ok_or(shape.layers.source().to_string())
    };
    let layer = |ratio: u64, indexer_length: u64, floats: u64| Cache::Compressed {
        key_length: 512,
        window: 128,
        ratio,
        indexer_length,
        state: plimsoll_core::units::Bytes::new(4 * floats),
    };
    let expected = Ok(vec![layer(0, 0, 0), layer(128, 0, 128 * 1024), layer(4, 128, 8 * 2560)]);
    assert_eq!(v4(r#""compress_ratios":[0,128,4,0]"#), expected);
    let kinds = r#""layer_types":["sliding_attention","heavily_compressed_attention",
        "compressed_sparse_attention"]"#;
    assert_eq!(v4(kinds), expected);
    assert!(v4(r#""x":0"#).is_err_and(|missing| missing.contains("compress_ratios")));
}

#[test]
fn windows_and_shared_caches_are_read_for_each_layer() {
    let step = format!(
        r#"{},"head_dim":128,"sliding_window":512,"num_attention_groups":8,
        "attention_other_setting":{{"attention_type":"sliding_attention","num_attention_heads":96}},
        "layer_types":["full_attention","sliding_attention","sliding_attention",
        "sliding_attention","full_attention"]"#,
        r#""model_type":"step3p5","num_hidden_layers":4,"hidden_size":4096,"num_attention_heads":64"#
    );
    assert_eq!(bytes(&step), Ok((8 * 512, 3 * 8 * 512, 0)));
    let olmo3 = format!(r#"{},"sliding_window":4096"#, grouped("olmo3", 32, 4096, 32, 8));
    assert_eq!(bytes(&olmo3), Ok((8 * 8 * 512, 24 * 8 * 512, 0)));
    let exaone = format!(r#"{},"sliding_window":null"#, grouped("exaone4", 30, 2048, 32, 8));
    assert_eq!(bytes(&exaone), Ok((30 * 8 * 256, 0, 0)));
    let k_exaone = format!(
        r#"{},"head_dim":128,"sliding_window":128,"sliding_window_pattern":"LLLG",
        "layer_types":["sliding_attention","sliding_attention","sliding_attention",
        "full_attention"]"#,
        grouped("exaone_moe", 4, 6144, 64, 8)
    );
    assert_eq!(bytes(&k_exaone), Ok((8 * 512, 3 * 8 * 512, 0)));
    let mimo = format!(
        r#"{},"head_dim":192,"swa_head_dim":192,"swa_num_key_value_heads":8,"sliding_window":128,
        "hybrid_layer_pattern":[0,1,1]"#,
        grouped("mimo_v2_flash", 3, 4096, 64, 4)
    );
    assert_eq!(bytes(&mimo), Ok((4 * 768, 2 * 8 * 768, 0)));
    let gemma3n = format!(
        r#"{},"sliding_window":512,"num_kv_shared_layers":15,"intermediate_size":[8192,16384]"#,
        grouped("gemma3n_text", 35, 2048, 8, 2)
    );
    assert_eq!(bytes(&nested("text_config", &gemma3n)), Ok((4 * 2 * 1024, 16 * 2 * 1024, 0)));
    let gemma4 = format!(
        r#"{},"head_dim":256,"global_head_dim":512,"sliding_window":1024,"attention_k_eq_v":true,
        "num_global_key_value_heads":4"#,
        grouped("gemma4_text", 60, 5376, 32, 16)
    );
    assert_eq!(bytes(&nested("text_config", &gemma4)), Ok((10 * 4 * 2048, 50 * 16 * 1024, 0)));
}

#[test]
fn the_states_of_hybrids_are_read_with_their_padding() {
    let delta = r#""linear_conv_kernel_dim":4,"linear_key_head_dim":128,"linear_value_head_dim":128,
        "linear_num_key_heads":16,"linear_num_value_heads":32"#;
    let state = 2 * 4 * (8192 * 3 + 32 * 128 * 128);
    let next = format!("{},{delta}", grouped("qwen3_next", 48, 2048, 16, 2));
    assert_eq!(bytes(&next), Ok((12 * 2 * 1024, 0, 36 * state)));
    let qwen35 = format!("{},{delta}", grouped("qwen3_5_text", 32, 4096, 16, 4));
    assert_eq!(bytes(&nested("text_config", &qwen35)), Ok((8 * 4 * 1024, 0, 24 * state)));

    let nano = format!(
        r#"{},"head_dim":128,"hybrid_override_pattern":"MEM*","ssm_state_size":128,
        "mamba_num_heads":64,"mamba_head_dim":64,"n_groups":8,"conv_kernel":4"#,
        grouped("nemotron_h", 4, 2688, 32, 2)
    );
    let state = 2 * 4 * ((4096 + 2 * 8 * 128) * 3 + 4096 * 128);
    assert_eq!(bytes(&nano), Ok((2 * 512, 0, 2 * state)));

    let granite = format!(
        r#"{},"layer_types":["mamba","attention"],"mamba_n_heads":48,"mamba_d_head":"auto",
        "mamba_expand":2,"mamba_d_state":128,"mamba_n_groups":1,"mamba_d_conv":4"#,
        grouped("granitemoehybrid", 2, 1536, 12, 4)
    );
    let state = 2 * 4 * ((3072 + 2 * 128) * 3 + 3072 * 128);
    assert_eq!(bytes(&granite), Ok((4 * 512, 0, state)));

    let lfm2 = format!(
        r#"{},"conv_L_cache":3,"layer_types":["conv","full_attention"]"#,
        grouped("lfm2", 2, 2048, 32, 8)
    );
    assert_eq!(bytes(&lfm2), Ok((8 * 256, 0, 2 * 4 * 2048 * 2)));

    let jamba = format!(
        r#"{},"attn_layer_period":8,"attn_layer_offset":4,"mamba_d_state":16,"mamba_d_conv":4,
        "mamba_expand":2"#,
        grouped("jamba", 8, 4096, 32, 8)
    );
    assert_eq!(bytes(&jamba), Ok((8 * 512, 0, 7 * 2 * 4 * 8192 * (3 + 16))));

    let falcon = format!(
        r#"{},"head_dim":128,"mamba_n_heads":24,"mamba_d_head":128,"mamba_d_state":256,
        "mamba_n_groups":1,"mamba_d_conv":4"#,
        grouped("falcon_h1", 44, 3072, 12, 2)
    );
    let state = 2 * 4 * ((3072 + 2 * 256) * 3 + 3072 * 256);
    assert_eq!(bytes(&falcon), Ok((44 * 2 * 512, 0, 44 * state)));

    let kimi = r#""model_type":"kimi_linear","num_hidden_layers":4,"kv_lora_rank":512,
        "qk_rope_head_dim":64,"linear_attn_config":{"full_attn_layers":[4],"kda_layers":[1,2,3],
        "num_heads":32,"head_dim":128,"short_conv_kernel_size":4}"#;
    let state = 2 * 4 * (3 * 4096 * 3 + 4096 * 128);
    assert_eq!(bytes(kimi), Ok((1152, 0, 3 * state)));
}

#[test]
fn layers_without_attention_and_encoders_have_no_cache() {
    let nas = r#""model_type":"nemotron-nas","num_hidden_layers":3,"hidden_size":8192,
        "num_attention_heads":64,"block_configs":[{"attention":{"n_heads_in_group":8}},
        {"attention":{"no_op":true}},{"attention":{"replace_with_linear":true}}]"#;
    assert_eq!(bytes(nas), Ok((8 * 512, 0, 0)));
    let bge = r#""model_type":"xlm-roberta","num_hidden_layers":24"#;
    assert_eq!(bytes(bge), Ok((0, 0, 0)));
}

#[test]
fn a_type_that_is_not_listed_or_lacks_a_field_is_unknown_by_name() {
    for (config, missing) in [
        (grouped("step9", 4, 64, 4, 4), "a cache rule for the model type step9"),
        (grouped("deepseek_v4", 4, 64, 4, 4), "sliding_window"),
        (grouped("minimax_m3_text", 4, 64, 4, 4), "sparse_attention_config.sparse_index_dim"),
        (nested("text_config", &grouped("mllama_text_model", 4, 64, 4, 4)), "no class for it"),
        (grouped("qwen3_next", 4, 64, 4, 4), "linear_num_key_heads"),
        (grouped("granitemoehybrid", 4, 64, 4, 4), "layer_types"),
        (r#""model_type":"kimi_k2","num_hidden_layers":2"#.to_string(), "kv_lora_rank"),
    ] {
        let error = bytes(&config).expect_err("is unknown");
        assert!(error.contains(missing), "{config}: {error}");
    }
}
