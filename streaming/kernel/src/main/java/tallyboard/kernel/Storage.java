package tallyboard.kernel;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.StringJoiner;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FileUtil;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream;

/**
 * The files of checkpoints on any of Hadoop's file systems: HadoopPath in
 * streaming/state/storage.py calls it. Files are written as Spark writes those of its own logs.
 */
public final class Storage {
  private final FileSystem files;
  private final CheckpointFileManager manager;

  private Storage(FileSystem files, CheckpointFileManager manager) {
    this.files = files;
    this.manager = manager;
  }

  /** Reaches the file system of a URL with the configuration of a session. */
  public static Storage of(SparkSession session, String url) throws IOException {
    Configuration configuration = session.sessionState().newHadoopConf();
    Path path = new Path(url);
    return new Storage(path.getFileSystem(configuration),
        CheckpointFileManager.create(path, configuration));
  }

  public boolean exists(String path) throws IOException {
    return files.exists(new Path(path));
  }

  /** Returns the names of a folder's entries, one a line; none where there is no folder. */
  public String names(String path) throws IOException {
    StringJoiner names = new StringJoiner("\n");
    try {
      for (FileStatus each : files.listStatus(new Path(path))) names.add(each.getPath().getName());
    } catch (FileNotFoundException none) {
      return "";
    }
    return names.toString();
  }

  public byte[] read(String path) throws IOException {
    try (FSDataInputStream in = files.open(new Path(path))) {
      return in.readAllBytes();
    }
  }

  public void write(String path, byte[] data) throws IOException {
    publish(new Path(path), data, true);
  }

  /** Writes a file unless there is one; returns whether it was written. */
  public boolean create(String path, byte[] data) throws IOException {
    if (exists(path)) return false; // else Spark's manager would leave its draft, and a warning
    try {
      publish(new Path(path), data, false);
      return true;
    } catch (FileAlreadyExistsException taken) {
      return false;
    }
  }

  private void publish(Path path, byte[] data, boolean overwrite) throws IOException {
    if (!files.exists(path.getParent())) files.mkdirs(path.getParent());
    CancellableFSDataOutputStream out = manager.createAtomic(path, overwrite);
    try {
      out.write(data);
    } catch (IOException | RuntimeException failed) {
      out.cancel();
      throw failed;
    }
    out.close();
  }

  public void makeFolder(String path) throws IOException {
    files.mkdirs(new Path(path));
  }

  public void delete(String path) throws IOException {
    files.delete(new Path(path), true);
  }

  /** Returns the bytes of all files below a folder, as far as they are still there. */
  public long size(String path) throws IOException {
    RemoteIterator<LocatedFileStatus> all = files.listFiles(new Path(path), true);
    long total = 0;
    try {
      while (all.hasNext()) total += all.next().getLen();
    } catch (FileNotFoundException gone) {
      return total; // Spark tidies up meanwhile
    }
    return total;
  }

  /** Returns when a file was written, Unix ms. */
  public long modified(String path) throws IOException {
    return files.getFileStatus(new Path(path)).getModificationTime();
  }

  /** Moves a local file to the storage. */
  public void upload(String local, String path) throws IOException {
    Path target = new Path(path);
    if (!files.exists(target.getParent())) files.mkdirs(target.getParent());
    files.copyFromLocalFile(true, true, new Path("file://" + local), target);
  }

  /** Copies a file of the storage to a local one. */
  public void download(String path, String local) throws IOException {
    files.copyToLocalFile(false, new Path(path), new Path("file://" + local), true);
  }

  /** Gives a file another name, in place of what has it. */
  public void move(String from, String to) throws IOException {
    Path target = new Path(to);
    if (ObjectCheckpoint.SCHEME.equals(files.getScheme())) {
      FileUtil.copy(files, new Path(from), files, target, true, true, files.getConf());
      return;
    }
    files.delete(target, false);
    if (!files.rename(new Path(from), target)) {
      throw new IOException(from + " could not be moved to " + to);
    }
  }
}
