//! A NATS server that authenticates its users by JWTs and keys, like those of `nsc`; the test makes them itself.

use crate::fleet::{car, nats, sinr_of};
use crate::sandbox::Sandbox;
use crate::tools::{Process, local, wait};
use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Returns the JWT with the claims of `issuer` about `subject`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, claims: &Value) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let body = json!({"jti": "1", "iat": 1, "iss": issuer.public_key(), "sub": subject.public_key(), "nats": claims});
    let signed = format!("{}.{}", part(&json!({"typ": "JWT", "alg": "ed25519-nkey"})), part(&body));
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&issuer.sign(signed.as_bytes()).unwrap()))
}

/// Writes the credentials file of a user of the account, and returns it as an option of a server's address.
fn user(sandbox: &Sandbox, account: &KeyPair, name: &str, publish: &Value, subscribe: &Value) -> String {
    let key = KeyPair::new_user();
    let claims =
        json!({"type": "user", "version": 2, "pub": publish, "sub": subscribe, "subs": -1, "data": -1, "payload": -1});
    let (token, seed) = (jwt(account, &key, &claims), key.seed().unwrap());
    let file = sandbox.files.path().join(format!("{name}.creds"));
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    format!("credentials={}", file.display())
}

#[test]
fn credentials_say_what_a_user_may_publish() {
    let (operator, account, another) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let limits = json!({"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1});
    let [known, of_itself] = [
        jwt(&operator, &account, &json!({"type": "account", "version": 2, "limits": limits})),
        jwt(&operator, &operator, &json!({"type": "operator", "version": 2})),
    ];
    let config = format!(
        "listen: \"127.0.0.1:PORT\"\noperator: \"{of_itself}\"\nresolver: MEMORY\n\
         resolver_preload: {{ {}: \"{known}\" }}\n",
        account.public_key()
    );
    let Some((sandbox, nats)) = nats("credentials_say_what_a_user_may_publish", &config) else { return };
    let url = |credentials: &str| format!("nats://{},{credentials}", local(nats.port));
    let (own, nothing) = (json!({"allow": ["hotcc.radio.car-1"]}), json!({"deny": [">"]}));
    let edge = user(&sandbox, &account, "edge", &nothing, &json!({"allow": ["hotcc.radio.*"]}));
    let car_1 = user(&sandbox, &account, "car-1", &own, &nothing);
    let stranger = user(&sandbox, &another, "stranger", &own, &nothing);

    let ues = ["--ue", "car-1=10.0.0.1", "--ue", "car-2=10.0.0.2"];
    let server = Process::feeder(&sandbox, &[&["--subscribe", &url(&edge)], &ues[..]].concat());
    let (feeder, sender) = car(&sandbox, &url(&car_1), "car-1");
    let seen = || {
        sender.sinr(7.0);
        sinr_of(&sandbox, "10.0.0.1/32") == Some(7.0)
    };
    wait("its own", seen, || format!("{}\n{}", server.all_said(), feeder.all_said()));

    let (forger, to_forger) = car(&sandbox, &url(&car_1), "car-2");
    let refused = || {
        to_forger.sinr(40.0);
        forger.said("Permissions Violation") > 0
    };
    wait("a refusal", refused, || forger.all_said());
    let (stranger, _) = car(&sandbox, &url(&stranger), "car-1");
    stranger.wait_to_say("authorization violation");
    let links = sandbox.links();
    let seen: Vec<_> = links.iter().map(|l| (l["sinr_db"].as_f64(), l["updates"].as_u64() > Some(0))).collect();
    assert_eq!(seen, [(Some(7.0), true), (None, false)], "{links:?}");
}
