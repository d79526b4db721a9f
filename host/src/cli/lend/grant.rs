//! `topoloom lend grant`: what a lender creates for one borrower (decision S19). Asks no API server.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};

use super::{BorrowerArgs, ObjectFormat, printed};
use crate::cli::print;
use crate::manager::rights::lending::grant::Grant;
use crate::manager::rights::lending::{PhysicalSettings, Streams};

/// Flags of `lend grant`.
#[derive(Debug, Args)]
pub(in crate::cli) struct GrantArgs {
    #[command(flatten)]
    borrower: BorrowerArgs,
    /// The identity of the virtual cluster of the borrower: the UID of its namespace kube-system. By it the admission policy
    /// tells the claims of this borrower from those of another; only --physical-writes=none needs none
    #[arg(
        long,
        value_name = "UID",
        value_parser = super::virtual_cluster,
        required_unless_present = "physical_writes",
        required_if_eq("physical_writes", "all")
    )]
    virtual_cluster_id: Option<String>,
    /// Whether the borrower labels and claims nodes, as `physicalWrites` of the ClusterBinding; default: all
    #[arg(long, value_enum)]
    physical_writes: Option<WritesWord>,
    /// Where the policies are, as `policySource` of the ClusterBinding
    #[arg(long, value_enum, default_value_t = PoliciesWord::Physical)]
    policies: PoliciesWord,
    /// Allow kubectl logs, exec, attach and port-forward of lent pods
    #[arg(long)]
    streams: bool,
    /// YAML or JSON
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

/// Whether physical nodes are written, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WritesWord {
    /// A node is claimed before it is lent
    All,
    /// No node is written: nothing keeps a second borrower away
    None,
}

/// Where policies are, as a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PoliciesWord {
    /// In the physical cluster: the lender decides
    Physical,
    /// In the virtual cluster
    Virtual,
}

/// Prints the objects.
pub(super) fn run(args: &GrantArgs) -> anyhow::Result<ExitCode> {
    let BorrowerArgs { borrower, mount_namespace, account_namespace } = &args.borrower;
    let settings = PhysicalSettings {
        binding: borrower.clone(),
        mount_namespace: mount_namespace.clone(),
        writes: match args.physical_writes {
            None | Some(WritesWord::All) => PhysicalWrites::All,
            Some(WritesWord::None) => PhysicalWrites::None,
        },
        policies: match args.policies {
            PoliciesWord::Physical => PolicySource::Physical,
            PoliciesWord::Virtual => PolicySource::Virtual,
        },
        streams: if args.streams { Streams::Served } else { Streams::Off },
    };
    let grant = Grant::new(settings, account_namespace, args.virtual_cluster_id.as_deref())?;
    print::out(&printed(&grant.objects(), args.output, &comment(&grant, borrower))?);
    Ok(ExitCode::SUCCESS)
}

/// What stands above the objects.
fn comment(grant: &Grant, borrower: &str) -> String {
    let account = grant.account();
    format!(
        "What the lender creates in the physical cluster for the borrower {borrower}: kubectl apply -f -\n\
         Its kubeconfig: topoloom lend kubeconfig, with the same --borrower and --mount-namespace.\n\
         To end all of its rights at once: kubectl delete serviceaccount -n {} {}\n\
         Do not delete this whole list: with the namespace its pods go, and with the definition all policies.",
        account.namespace, account.name
    )
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};
    use serde_json::json;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<GrantArgs, String> {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            args: GrantArgs,
        }
        let usual = ["grant", "--borrower", "east", "--mount-namespace", "lent"];
        let matches = Cli::command().try_get_matches_from([&usual[..], arguments].concat());
        let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
        cli.map(|cli| cli.args).map_err(|error| error.to_string())
    }

    #[test]
    fn s19_the_identity_of_the_borrower_is_needed_wherever_nodes_are_written() {
        for words in [&[][..], &["--physical-writes", "all"]] {
            let error = parse(words).unwrap_err();
            assert!(error.contains("--virtual-cluster-id <UID>"), "{words:?}: {error}");
        }
        for words in [
            &["--physical-writes", "none"][..],
            &["--virtual-cluster-id", "u"],
            &["--virtual-cluster-id", "u", "--physical-writes", "all"],
        ] {
            parse(words).unwrap();
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_what_a_name_is() {
        let error = parse(&["--virtual-cluster-id", "u", "--account-namespace", "A"]).unwrap_err();
        assert!(error.contains("must be the name of a namespace"), "{error}");
        assert!(super::super::binding("East").unwrap_err().contains("the name of the ClusterBinding must consist of"));
    }

    #[test]
    fn the_comment_says_how_to_end_a_grant_without_the_definition_of_all_policies() {
        let settings = PhysicalSettings {
            binding: super::super::binding("east").unwrap(),
            mount_namespace: "lent".into(),
            writes: PhysicalWrites::None,
            policies: PolicySource::Physical,
            streams: Streams::Off,
        };
        let grant = Grant::new(settings, "accounts", None).unwrap();
        let text = printed(&[json!({"kind": "A"})], ObjectFormat::Yaml, &comment(&grant, "east")).unwrap();
        assert!(
            text.contains("# To end all of its rights at once: kubectl delete serviceaccount -n accounts east.lent\n")
        );
        assert!(text.lines().all(|line| line.starts_with("# ") || line == "---" || line == "kind: A"), "{text}");
    }
}
