//! The supervisor of a command as a program of its own, for workers whose executable cannot play that part
//! itself: see `jobforge_connectors::command::Commands::supervised_by`.

fn main() {
    jobforge_connectors::command::supervise_if_asked();
    eprintln!("jobforge-supervise is started by a worker that runs commands, and by nobody else");
    std::process::exit(2);
}
